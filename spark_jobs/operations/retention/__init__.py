"""Data that is removed, and tables that are rewritten without a change of their rows: gc, maintenance, folding.

Put here: what is due by ``retention:``. Not here: rows that are erased by key (operations/forgetting/).
"""
