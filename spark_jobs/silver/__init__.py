"""Silver tables: the net change per primary key of each window of the log.

Put here: compaction, table timelines, filters and masks. Not here: merging into downstream tables (downstream/).
"""
