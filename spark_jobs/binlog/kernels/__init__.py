"""Every numba function of the decoder: loops over bytes and flat arrays, compiled once and cached on disk.

Kernels take addresses (int64) of bytes and numpy arrays for results. They never raise: they report where they stopped
and why, as a code and an offset, and their callers make an error of it that names file, table and column.

Put here: what must touch every event, row or value; callers name its module. Not here: anything that runs once a slice,
a table or a batch.
"""
