"""The second reader: a sample of bronze's row events, decoded by python-mysql-replication too, and compared.

Put here: choosing the sample, the other decoder, and comparing values. Not here: the comparison of rows with the
server's (verify/), or what is printed (cli/check.py).
"""
