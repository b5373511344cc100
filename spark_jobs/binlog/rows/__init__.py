"""Row events to Arrow columns.

Put here: decoding of many rows at once. Not here: what a column type means (types/) or loops over bytes (kernels/).
"""
