"""The main job, whole, on a real MySQL server that comes along or on recorded binlogs.

Put here: what the demo shows and the server it shows it on. Not here: the work itself, which the demo asks of
pipeline/run.py like everybody else.
"""
