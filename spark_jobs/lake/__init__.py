"""Delta tables: where they are, and how commits are fenced and retried.

Put here: what all layers' tables share. Not here: the columns of a layer (bronze/, silver/, downstream/).
"""
