"""Expressions of MySQL over the rows of one table: read, checked against its columns, evaluated over Arrow columns.

Put here: what an expression may say, and its value for each row. Not here: which rules have expressions
(config/filters.py), the columns of a table as values (silver/row_values.py), what becomes of the rows, or Spark.
"""
