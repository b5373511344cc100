"""Merges of every change: tables of ``mode: append`` and ``mode: history``.

Put here: windows of log -> rows, versions and their intervals. Not here: tables with a row per key (merge/).
"""
