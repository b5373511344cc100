"""Credentials of a login to a server: a password, or a token that a cloud gives for the identity of this process.

Put here: getting either, and when it is renewed. Not here: sending it (source/connection.py).
"""
