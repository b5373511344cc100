"""Demo of the whole pipeline, on a real MySQL server that is fetched, or on recorded binlogs.

Put here: what the demo shows and the server it shows it on. Not here: the work itself, which the demo asks of
pipeline/run.py like everybody else.
"""
