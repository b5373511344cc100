"""Labels of ENUM and SET whose character set the log lacks, from a definition that has them.

MySQL 8.0.1 to 8.0.16 log labels under binlog_row_metadata=FULL without the character set that their bytes are in. A
definition (of a statement, the schema history, a server) has the text; the bytes of the log must be that text.

Put here: which columns lack labels, and taking them from a definition. Not here: which definition holds at a position
(silver/table_timeline.py, schema/history.py), how a TABLE_MAP is read (binlog/events/table_map.py).
"""

from dataclasses import replace

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.binlog.types.charsets import are_labels


def without_labels(definition: TableDefinition) -> list[str]:
    """The names of ENUM and SET columns whose labels are not known."""
    pairs = zip(definition.column_names(), definition.columns, strict=True)
    return [name for name, column in pairs if column.type.has_labels and column.labels is None]


def with_labels(logged: TableDefinition, definition: TableDefinition | None) -> TableDefinition:
    """A logged definition with the labels of another one, where their bytes in the log are those.

    Columns are matched by name.
    """
    if definition is None or not any(column.label_bytes for column in logged.columns):
        return logged
    by_name = {
        name.casefold(): column for name, column in zip(definition.column_names(), definition.columns, strict=True)
    }
    pairs = zip(logged.column_names(), logged.columns, strict=True)
    columns = (_with_labels(column, by_name.get(name.casefold())) for name, column in pairs)
    return replace(logged, columns=tuple(columns))


def with_known_labels(definition: TableDefinition, source: TableDefinition) -> TableDefinition:
    """A definition that is not of the log with the labels that it lacks, by another one of the same columns."""
    if definition.column_names() != source.column_names():
        return definition
    pairs = zip(definition.columns, source.columns, strict=True)
    columns = (
        replace(column, labels=two.labels)
        if column.type.has_labels
        and column.labels is None
        and (column.type_code, column.meta) == (two.type_code, two.meta)
        else column
        for column, two in pairs
    )
    return replace(definition, columns=tuple(columns))


def labels_contradict(logged: Column, column: Column) -> bool:
    """True if the bytes of the log are other labels than those of a definition."""
    if logged.label_bytes is None or column.labels is None:
        return False
    return not are_labels(logged.label_bytes, column.labels, column.charset)


def _with_labels(logged: Column, column: Column | None) -> Column:
    if logged.label_bytes is None or column is None or column.labels is None:
        return logged
    if column.type_code != logged.type_code or labels_contradict(logged, column):
        return logged
    return replace(logged, labels=column.labels, label_bytes=None)
