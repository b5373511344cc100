"""Spark jobs of given tasks, their shuffle, and jobs that write files again without changing rows.

Put here: what holds for every job, whatever its units are. Not here: rows, or what a unit of a layer is.
"""
