"""Versions of Delta tables as snapshots of Iceberg tables: metadata beside the same data files, without a JVM.

Put here: what is written in Iceberg's specification of tables, format version 3, and in that of Puffin files. Not here:
which tables are shown (pipeline/iceberg_tables.py).
"""
