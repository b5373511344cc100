"""Labels whose character set the log does not name."""

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.ddl.diff import differences
from spark_jobs.ddl.labels import with_known_labels, with_labels, without_labels

NAME = TableName("d", "t")
UCS2, LATIN1 = 35, 8


def table(*columns: Column) -> TableDefinition:
    return TableDefinition(NAME, columns, ())


def logged(*labels: bytes, text: tuple[str, ...] | None = None) -> TableDefinition:
    return table(Column("e", 247, 1, labels=text, label_bytes=labels))


def column(*labels: str, charset: int | None = None, name: str = "E") -> TableDefinition:
    return table(Column(name, 247, 1, charset=charset, labels=labels))


def test_labels_are_taken_where_their_bytes_are_those_of_the_log() -> None:
    definition = with_labels(logged(b"gr\xfcn", b"["), column("grün", "[", charset=LATIN1))
    assert (definition.columns[0].labels, definition.columns[0].label_bytes) == (("grün", "["), None)
    assert with_labels(logged(b"gr\xfcn"), column("grün")).columns[0].labels == ("grün",)


def test_text_of_ucs2_that_looks_like_ascii_is_what_the_definition_says() -> None:
    on = logged(b"on", text=("on",))
    assert with_labels(on, column("潮", charset=UCS2)).columns[0].labels == ("潮",)
    assert with_labels(on, column("on", charset=LATIN1)).columns[0].labels == ("on",)
    assert differences(on, column("潮", charset=UCS2, name="e")) == []


def test_other_labels_than_those_of_the_log_are_not_taken() -> None:
    for definition in (
        column("grau", charset=LATIN1),
        column("grün", "rot"),
        column("grün", charset=33),
        column(name="x"),
    ):
        assert without_labels(with_labels(logged(b"gr\xfcn"), definition)) == ["e"]
    assert without_labels(with_labels(logged(b"gr\xfcn"), None)) == ["e"]
    (line,) = differences(column("rot", charset=LATIN1, name="e"), logged(b"gr\xfcn"), "the log of its rows")
    assert (
        line == "column e: is followed with the labels ('rot',), and the log of its rows has the bytes (b'gr\\xfcn',)"
    )


def test_a_definition_without_labels_is_completed_by_another_of_the_same_columns() -> None:
    old = table(Column("e", 247, 1))
    assert with_known_labels(old, column("a", name="e")).columns[0].labels == ("a",)
    assert with_known_labels(old, column("a", name="f")) == old
    assert with_known_labels(old, table(Column("e", 248, 1, labels=("a",)))) == old
