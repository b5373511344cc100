"""Text made from names and values of a source: quoted in SQL, escaped and shortened in messages.

Put here: quoting, what a message may disclose, what to do after an error. Not here: parsing of statements (ddl/).
"""
