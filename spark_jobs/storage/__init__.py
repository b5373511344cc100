"""Files of the lake by path: on a file system, or as objects of a store.

Put here: creating, reading and listing files, and what a store's refusals mean. Not here: what the files say (delta/).
"""
