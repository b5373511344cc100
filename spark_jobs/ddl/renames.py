"""RENAME TABLE, ALTER TABLE … RENAME, CREATE TABLE … LIKE: which table a name stands for afterwards.

Source: MySQL manual, "RENAME TABLE Statement" (renames are done one after the other, from left to right, and seen by
others all at once), "ALTER TABLE Statement", "CREATE TABLE ... LIKE Statement"; MariaDB's knowledge base for IF EXISTS
and WAIT.

Put here: reading names off such statements. Not here: what becomes of rows (silver/timeline/changes.py).
"""

from collections.abc import Iterator, Sequence

from spark_jobs.binlog import TableName
from spark_jobs.ddl.columns import Word, words_of
from spark_jobs.ddl.parse_alter import after_name, comma_parts, new_name, qualified_name, target
from spark_jobs.ddl.unreadable_types import readable
from spark_jobs.errors import Unsupported


@readable
def earlier_names(text: str, database: str) -> dict[TableName, TableName | None]:
    """Earlier names by each name that a statement takes or gives: of the table that has it after the statement.

    None where no table has it any more; the name itself where it comes back to the table that had it. Empty for
    statements that rename no table. Raises Unsupported.
    """
    was: dict[TableName, TableName | None] = {}
    for old, new in _pairs(text, database):
        was[new] = was.get(old, old)
        if new != old:
            was[old] = None
    return was


@readable
def like_table(text: str, database: str) -> TableName | None:
    """The table whose columns and keys a CREATE TABLE … LIKE takes; None for another statement. Raises Unsupported."""
    words = words_of(text)
    if not words[0].among("CREATE"):
        return None
    rest = after_name(words)  # elsewhere the word is part of an expression
    at = 1 if rest and rest[0].among("(") else 0
    return _table_name(rest[at + 1 :], database) if len(rest) > at and rest[at].among("LIKE") else None


def _pairs(text: str, database: str) -> Iterator[tuple[TableName, TableName]]:
    words = words_of(text)
    if words[0].among("ALTER"):
        new = new_name(text)
        if new:
            yield target(text, database), TableName(new.schema or database, new.table)
        return
    if not words[0].among("RENAME"):
        return
    if words[1].kind == "string":  # the tokenizer leaves all behind this word as it is
        words = words_of(words[1].text)
    if not words or not words[0].among("TABLE", "TABLES"):
        return
    ahead = [word.text.upper() for word in words[1:3]]
    for part in comma_parts(words[3 if ahead == ["IF", "EXISTS"] else 1 :]):
        at = next((k for k, word in enumerate(part) if word.among("TO", "AS")), None)
        if at is None or at == 0 or at + 1 == len(part):
            raise Unsupported(f"{' '.join(word.text for word in part)} names no table")
        yield _table_name(part, database), _table_name(part[at + 1 :], database)


def _table_name(words: Sequence[Word], database: str) -> TableName:
    if not words:
        raise Unsupported("it names no table")
    schema, table = qualified_name(words)
    return TableName(database if schema is None else schema, table)
