"""One source through all layers: runs, backfills, restores and initial loads.

Put here: planning, and the order of the layers' work. Not here: the work on one table (silver/, downstream/).
"""
