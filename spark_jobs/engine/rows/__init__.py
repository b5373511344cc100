"""Rows of silver and of targets: found by key, projected to other definitions, inherited, restated.

Put here: what tasks of silver and of merges both do with rows. Not here: files and commits of a layer.
"""
