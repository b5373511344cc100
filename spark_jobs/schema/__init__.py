"""What the columns of a table were at a position, and which statements of the log change that."""
