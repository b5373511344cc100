"""Downstream tables: silver's windows merged into the current rows, and the catalog that publishes their versions.

Put here: merging, sharded targets, commit order across sources. Not here: how net changes come about (silver/).
"""
