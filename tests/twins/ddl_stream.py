"""Random statements about tables, DDL among them. Put here: the stream. Not here: what is compared behind it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

KEYS = 40
KINDS: list[tuple[str, list[str], str | None]] = [
    # type, constants of it, a type that holds all its values
    ("TINYINT", ["0", "-128", "127"], "SMALLINT"),
    ("SMALLINT UNSIGNED", ["0", "65535"], "INT"),
    ("MEDIUMINT", ["-5", "8388607"], "BIGINT"),
    ("INT", ["-2147483648", "7", "TRUE"], "BIGINT"),
    ("INT UNSIGNED", ["4294967295"], "BIGINT UNSIGNED"),
    ("BIGINT", ["9223372036854775807", "-1"], "DECIMAL(22,2)"),
    ("DECIMAL(10,2)", ["'1.50'", "-0.01", "99999999.99"], "DECIMAL(14,4)"),
    ("FLOAT", ["1.5", "-0.25"], "DOUBLE"),
    ("DOUBLE", ["0.1", "-1e100"], None),
    ("BIT(5)", ["b'10101'", "3"], "BIT(9)"),
    ("YEAR", ["1999"], None),
    ("DATE", ["'2024-02-29'", "'0000-00-00'"], None),
    ("DATETIME", ["'1999-12-31 23:59:59'"], "DATETIME(3)"),
    ("DATETIME(6)", ["'1999-12-31 23:59:59.5'", "0"], None),
    ("TIME(2)", ["'-10:00:00.5'"], None),
    ("CHAR(5)", ["'ab  '", "''"], "VARCHAR(9)"),
    ("VARCHAR(20)", ["'it''s'", "'back\\\\slash'", "5", "'ü '"], "VARCHAR(300)"),
    ("VARCHAR(10) CHARACTER SET latin1", ["'é'"], "VARCHAR(10) CHARACTER SET utf8mb4"),
    ("VARBINARY(6)", ["'ab'", "0x4100"], "VARBINARY(60)"),
    ("BINARY(4)", ["'ab'"], None),
    ("ENUM('a','b','c''d')", ["'b'", "'c''d'"], "ENUM('z','a','b','c''d')"),
    ("SET('x','y')", ["'y,x'", "''"], "SET('x','y','z')"),
    ("TINYTEXT", [], "TEXT"),
]
JSON: tuple[str, list[str], str | None] = ("JSON", [], None)
PATHS = ("$.a", "$.list[1]", "$.list[2].deep", "$.list[last]", "$.text", "$.new")


@dataclass
class Shape:
    """What a stream knows of one of its tables."""

    columns: dict[str, int] = field(default_factory=dict)
    """Beside id and a pair's: each with the place of its kind in Stream.kinds."""
    rows_query_event: str = "PRIMARY"
    """By what rows are told apart: PRIMARY or UNIQUE (id), PAIR (a primary key over two), NULLABLE or NOTHING."""
    pair: str = ""
    """Of a PAIR the column beside id."""


class Stream:
    """Statements about tables, chosen at random; it knows their columns.

    keys: the key changes, too. tables: where there are several, they take each other's names, are made LIKE each other,
    and statements do several things at once. old: as MySQL 5.7 wants it, which does not know RENAME COLUMN. charset: is
    said of all text, for logs that tell none where no statement does. documents: many columns are JSON, and statements
    change parts of them.
    """

    def __init__(
        self,
        seed: int,
        *,
        keys: bool = False,
        tables: Sequence[str] = ("t",),
        old: bool = False,
        charset: str = "",
        documents: bool = False,
    ) -> None:
        self.keys, self.old = keys, old
        self.generator = random.Random(seed)
        self.kinds = [
            (_stated_type(kind, charset), values, wider and _stated_type(wider, charset))
            for kind, values, wider in [*KINDS, *[JSON] * (len(KINDS) * documents)]
        ]
        """With the wider types that columns have got: a column is known by the place of its kind here."""
        self.names = 0
        self.shapes = {table: Shape() for table in tables}
        self.table = tables[0]
        """The one that the next statement is about."""

    @property
    def at(self) -> Shape:
        """Of the table that the next statement is about."""
        return self.shapes[self.table]

    def statements(self, count: int) -> Iterator[str]:
        """Of so many steps, most of which are a statement each; every table is there behind each step."""
        has_several = len(self.shapes) > 1
        for table in self.shapes:
            self.table = table
            yield self.create()
        for _ in range(count):
            if has_several:
                self.table = self.generator.choice([*self.shapes])
            yield from self.generator.choices(
                [
                    self.rows,
                    self.alter,
                    self.add,
                    self.key,
                    self.truncate,
                    self.recreate,
                    self.bare,
                    self.two_clauses,
                    self.give,
                ],
                weights=[60, 16, 16, 10 * self.keys, 4, 4, 6 * has_several, 8 * has_several, 14 * has_several],
            )[0]()

    def create(self) -> str:
        columns = {self.new_name(): self.kind() for _ in range(self.generator.randrange(4))}
        self.shapes[self.table] = Shape(columns)
        listed = "".join(f", {name} {self.kinds[kind][0]}" for name, kind in columns.items())
        return f"CREATE TABLE {self.table} (id INT PRIMARY KEY{listed})"

    def new_name(self) -> str:
        self.names += 1
        return self.generator.choice([f"c{self.names}", f"`Column {self.names}`", f"`weird,;{{}}()=.{self.names}`"])

    def kind(self) -> int:
        return self.generator.randrange(len(self.kinds))

    def value(self, kind: int) -> str:
        if self.kinds[kind] == JSON:
            return self.document()
        return self.generator.choice([*self.kinds[kind][1], "NULL"]) if self.kinds[kind][1] else "'text'"

    def document(self) -> str:
        text = self.generator.choice("abc") * self.generator.choice([5, 60, 300])
        documents = [f'{{"a": {len(text)}, "list": [1, 2.50, {{"deep": null}}], "text": "{text}"}}', f'["{text}"]', "7"]
        return self.generator.choice([*(f"'{document}'" for document in documents), "NULL"])

    def changed(self, name: str) -> str:
        """An expression of a column's next value: of a document some of its parts are others."""
        kind = self.at.columns[name]
        if self.kinds[kind] != JSON or self.generator.random() < 0.2:
            return self.value(kind)
        path, number = self.generator.choice(PATHS), self.generator.randrange(99)
        value = self.generator.choice([f"{number}", "NULL", f"'{'z' * number}'", f"JSON_ARRAY({number}, 'x')"])
        changes = [f"JSON_SET({name}, '{path}', {value})", f"JSON_REPLACE({name}, '{path}', {value}, '$.a', {number})"]
        return self.generator.choice([*changes, f"JSON_REMOVE({name}, '{path}')"])

    def rows(self) -> Iterator[str]:
        verb, key = self.generator.choice(["REPLACE", "REPLACE", "DELETE", "UPDATE"]), self.generator.randrange(KEYS)
        if verb == "REPLACE":
            names = ["id", *self.at.columns, *([self.at.pair] if self.at.pair else [])]
            rows = ", ".join(self.row(key + at) for at in range(self.generator.randrange(1, 12)))
            yield f"REPLACE INTO {self.table} ({', '.join(names)}) VALUES {rows}"
        elif verb == "DELETE":
            yield f"DELETE FROM {self.table} WHERE id BETWEEN {key} AND {key + 2}"
        elif self.at.pair and self.generator.random() < 0.3:
            yield f"UPDATE IGNORE {self.table} SET {self.at.pair} = 15 - {self.at.pair} WHERE id >= {key}"
        elif self.at.columns and self.generator.random() < 0.7:
            name = self.generator.choice(list(self.at.columns))
            yield f"UPDATE {self.table} SET {name} = {self.changed(name)} WHERE id >= {key}"
        else:
            yield f"UPDATE IGNORE {self.table} SET id = id + 5 WHERE id = {key}"

    def row(self, key: int) -> str:
        pair = [self.generator.choice(["7", "8"])] if self.at.pair else []
        return f"({', '.join([str(key), *(self.value(kind) for kind in self.at.columns.values()), *pair])})"

    def add(self) -> Iterator[str]:
        name, kind = self.new_name(), self.kind()
        declared = self.kinds[kind][0]
        if self.kinds[kind][1] and self.generator.random() < 0.6:
            declared += f" DEFAULT {self.generator.choice(self.kinds[kind][1])}"
        location = self.generator.choice(["", " FIRST", " AFTER id"])
        self.at.columns[name] = kind
        yield f"ALTER TABLE {self.table} ADD COLUMN {name} {declared}{location}"

    def alter(self) -> Iterator[str]:
        if not self.at.columns:
            return
        name = self.generator.choice(list(self.at.columns))
        kind = self.at.columns[name]
        match self.generator.randrange(5):
            case 0:
                del self.at.columns[name]
                yield f"ALTER TABLE {self.table} DROP COLUMN {name}"
            case 1:
                new = self.new_name()
                self.at.columns[new] = self.at.columns.pop(name)
                yield f"ALTER TABLE {self.table} {self.rename(name, new)}"
            case 2 if self.kinds[kind][2]:
                new = self.new_name()
                self.kinds.append((str(self.kinds[kind][2]), self.kinds[kind][1], None))
                del self.at.columns[name]
                self.at.columns[new] = len(self.kinds) - 1
                location = self.generator.choice(["", " FIRST"])
                yield f"ALTER TABLE {self.table} CHANGE {name} {new} {self.kinds[kind][2]}{location}"
            case 3 if len(self.at.columns) > 1:
                second = self.generator.choice([column for column in self.at.columns if column != name])
                self.at.columns[name], self.at.columns[second] = self.at.columns[second], self.at.columns[name]
                yield f"ALTER TABLE {self.table} {self.rename(name, second)}, {self.rename(second, name)}"
            case _:
                yield self.generator.choice(
                    [
                        f"ALTER TABLE {self.table} COMMENT = 'no, nothing'",
                        f"ALTER TABLE {self.table} ADD INDEX (id), ALGORITHM = INPLACE",
                        f"ALTER TABLE {self.table} MODIFY COLUMN {name} {self.kinds[kind][0]} AFTER id",
                    ]
                )

    def rename(self, old: str, new: str) -> str:
        """The clause for a column that the stream already knows by its new name."""
        kind, _, _ = self.kinds[self.at.columns[new]]
        return f"CHANGE {old} {new} {kind}" if self.old else f"RENAME COLUMN {old} TO {new}"

    def key(self) -> Iterator[str]:
        """By another key, or by none, rows are told apart from here on."""
        goes = self.goes()
        self.at.rows_query_event = self.generator.choice(
            [source for source in self.comes() if source != self.at.rows_query_event]
        )
        if self.at.rows_query_event in ("PRIMARY", "UNIQUE", "PAIR"):
            twice = f"(SELECT id FROM (SELECT id FROM {self.table} GROUP BY id HAVING COUNT(*) > 1) AS d)"
            yield f"DELETE FROM {self.table} WHERE id IN {twice}"
        match self.at.rows_query_event:
            case "PRIMARY":
                goes.append("ADD PRIMARY KEY (id)")
            case "UNIQUE":
                goes.append("ADD UNIQUE u (id)")
            case "NULLABLE":
                goes = ["MODIFY id INT"]
            case "PAIR":
                self.at.pair = self.new_name()
                declared = f"ADD COLUMN {self.at.pair} INT NOT NULL DEFAULT 7"
                goes += [declared, f"ADD PRIMARY KEY ({self.at.pair}, id)"]
        yield f"ALTER TABLE {self.table} {', '.join(goes)}"

    def comes(self) -> list[str]:
        """By what rows may be told apart behind the next change."""
        return ["PRIMARY", "UNIQUE", "PAIR", "NOTHING", *(["NULLABLE"] if self.at.rows_query_event == "UNIQUE" else [])]

    def goes(self) -> list[str]:
        """What takes the present key away, whose other column is one like others behind that."""
        match self.at.rows_query_event:
            case "PRIMARY":
                return ["DROP PRIMARY KEY"]
            case "UNIQUE":
                return ["DROP INDEX u"]
            case "NULLABLE":
                return ["DROP INDEX u", "MODIFY id INT NOT NULL"]
            case "PAIR":
                name, self.at.pair = self.at.pair, ""
                self.at.columns[name] = next(at for at, (kind, _, _) in enumerate(self.kinds) if kind == "INT")
                return ["DROP PRIMARY KEY", f"MODIFY {name} INT"]
        return []

    def truncate(self) -> Iterator[str]:
        yield f"TRUNCATE TABLE {self.table}"

    def recreate(self) -> Iterator[str]:
        yield f"DROP TABLE {self.table}"
        yield self.create()

    def bare(self) -> Iterator[str]:
        """Another default than a column had, and a row that gets all of its defaults."""
        charset_columns = [name for name, kind in self.at.columns.items() if self.kinds[kind][1]]
        if charset_columns:
            name = self.generator.choice(charset_columns)
            value = self.generator.choice(self.kinds[self.at.columns[name]][1])
            yield f"ALTER TABLE {self.table} ALTER COLUMN {name} " + self.generator.choice(
                [f"SET DEFAULT {value}", "SET DEFAULT NULL"]
            )
        yield f"REPLACE INTO {self.table} (id) VALUES ({self.generator.randrange(KEYS)})"

    def two_clauses(self) -> Iterator[str]:
        """Two clauses in one ALTER, the second of which gives the table another column."""
        beginning = next(self.alter(), f"ALTER TABLE {self.table} COMMENT = 'nothing else'")
        _, added = next(self.add()).split(" ADD COLUMN ", 1)
        yield f"{beginning}, ADD COLUMN {added}"

    def give(self) -> Iterator[str]:
        """Another table's name, or its shape."""
        table = self.table
        second = self.generator.choice([shape for shape in self.shapes if shape != table])
        method = self.generator.choice([self.swap, self.leave, self.copy, self.there_and_back, self.migrate])
        yield from method(table, second)

    def swap(self, table: str, second: str) -> Iterator[str]:
        yield f"RENAME TABLE {table} TO aside, {second} TO {table}, aside TO {second}"
        self.shapes[table], self.shapes[second] = self.shapes[second], self.shapes[table]

    def leave(self, table: str, second: str) -> Iterator[str]:
        """The table goes to the other's name, and one like it, or a new one, takes its place."""
        yield f"DROP TABLE {second}"
        self.shapes[second] = self.shapes[table]
        if self.generator.random() < 0.5:
            yield f"RENAME TABLE {table} TO {second}"
            self.shapes[table] = _copied(self.shapes[second])
            yield f"CREATE TABLE {table} LIKE {second}"
        else:
            added = next(self.add())
            yield f"{added}, RENAME TO {second}"
            yield self.create()

    def copy(self, table: str, second: str) -> Iterator[str]:
        yield f"DROP TABLE {second}"
        self.shapes[second] = _copied(self.shapes[table])
        yield f"CREATE TABLE {second} LIKE {table}"
        if self.generator.random() < 0.7:
            yield f"INSERT INTO {second} SELECT * FROM {table} WHERE id <> 5"

    def there_and_back(self, table: str, _second: str) -> Iterator[str]:
        yield f"RENAME TABLE {table} TO aside"
        if self.generator.random() < 0.5:
            yield "DELETE FROM aside WHERE id = 3"
        yield f"ALTER TABLE aside RENAME {table}"

    def migrate(self, table: str, _second: str) -> Iterator[str]:
        """A copy with another column takes the table's position."""
        yield f"CREATE TABLE made LIKE {table}"
        yield f"INSERT INTO made SELECT * FROM {table}"
        yield next(self.add()).replace(f"ALTER TABLE {table} ", "ALTER TABLE made ", 1)
        yield f"RENAME TABLE {table} TO gone, made TO {table}"
        yield "DROP TABLE gone"


def stream_for(server: str, metadata: str | None, seed: int, tables: Sequence[str]) -> Stream:
    """A stream in which keys change, for a server whose log tells so much of tables (fix_servers.TELLING)."""
    charset = "utf8mb4" if metadata in (None, "NO_LOG") else ""
    return Stream(seed, keys=True, tables=tables, old=server == "mysql-5.7", charset=charset)


def _copied(shape: Shape) -> Shape:
    return replace(shape, columns={**shape.columns})


def _stated_type(kind: str, charset: str) -> str:
    """A type with the character set of its text, where one is to be said."""
    is_text = kind.startswith(("CHAR", "VARCHAR", "ENUM", "SET", "TINYTEXT", "TEXT")) and "CHARACTER SET" not in kind
    return f"{kind} CHARACTER SET {charset}" if charset and is_text else kind
