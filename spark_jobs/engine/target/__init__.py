"""Files of a downstream table: units, files written again, the change data feed, rows completed.

Put here: what every kind of merge does with the files of its target. Not here: which rows are new.
"""
