"""Retention and maintenance: gc, tables rewritten without a change of their rows, folding.

Put here: what is due by ``retention:``. Not here: rows that are erased by key (operations/forgetting/).
"""
