"""Subscriptions: consumer groups that read a source's changes from bronze, with positions kept in the lake.

Put here: groups, their records and leases, batches and acknowledgements. Not here: changes and their lines (changes/).
"""
