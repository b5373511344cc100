"""Columns of a table that conditions and computed columns are read for. Put here: one of each sort."""

from spark_jobs.config.conditions import Sort, Term, number

COLUMNS = {
    "n": number("n", 10),
    "big": number("big", 38),
    "price": number("price", 10, 2),
    "f": Term("f", Sort.REAL),
    "name": Term("name", Sort.TEXT),
    "state": Term("state", Sort.LABEL, labels=("open", "paid")),
    "day": Term("day", Sort.DATE),
    "at": Term("at", Sort.DATETIME),
    "seen": Term("seen", Sort.MOMENT),
    "blob": Term("blob", Sort.BYTES),
    "doc": Term("doc", Sort.OTHER),
}
