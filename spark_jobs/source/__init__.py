"""Sources of logs: servers and folders of files.

Put here: connecting, listing, reading bytes, failover. Not here: what the bytes mean (binlog/) or storing them
(bronze/).
"""
