"""Peers side by side, on the same logs, in one run: ``make bench``."""
