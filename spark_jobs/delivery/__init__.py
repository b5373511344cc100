"""Deliveries of downstream tables into other databases: changes between two versions, written exactly once.

Put here: what of a downstream table a target lacks, its statements, transactions and progress. Not here: how downstream
tables come about (downstream/), which of them a run changed (pipeline/), or reading servers (source/).
"""
