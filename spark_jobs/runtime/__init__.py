"""Spark and the machine: sessions, downloads, interrupts, and errors of the JVM.

Put here: what a run needs before it reads a byte. Not here: Delta tables (lake/) or connections to servers (source/).
"""
