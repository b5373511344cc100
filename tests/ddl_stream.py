"""Random statements about one table, DDL among them. Put here: the stream. Not here: what is compared behind it."""

import random
from collections.abc import Iterator

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
"""Pairs of a type and a wider one are appended while streams run: a column is known by its place here."""


class Stream:
    """Statements about one table, chosen at random; it knows the table's columns. keys: the key changes, too."""

    def __init__(self, seed: int, *, keys: bool = False) -> None:
        self.keys = keys
        self.some = random.Random(seed)
        self.columns: dict[str, int] = {}
        self.names = 0
        self.is_keyed = True

    def statements(self, count: int) -> Iterator[str]:
        yield self.create()
        for _ in range(count):
            yield from self.some.choices(
                [self.rows, self.alter, self.add, self.key, self.truncate, self.again],
                weights=[60, 16, 16, 6 * self.keys, 4, 4],
            )[0]()

    def create(self) -> str:
        self.is_keyed = True
        self.columns = {self.new_name(): self.kind() for _ in range(self.some.randrange(4))}
        listed = "".join(f", {name} {KINDS[kind][0]}" for name, kind in self.columns.items())
        return f"CREATE TABLE t (id INT PRIMARY KEY{listed})"

    def new_name(self) -> str:
        self.names += 1
        return self.some.choice([f"c{self.names}", f"`Column {self.names}`", f"`weird,;{{}}()=.{self.names}`"])

    def kind(self) -> int:
        return self.some.randrange(len(KINDS))

    def value(self, kind: int) -> str:
        return self.some.choice([*KINDS[kind][1], "NULL"]) if KINDS[kind][1] else "'text'"

    def rows(self) -> Iterator[str]:
        verb, key = self.some.choice(["REPLACE", "REPLACE", "DELETE", "UPDATE"]), self.some.randrange(12)
        if verb == "REPLACE":
            cells = ["t.id", *(self.value(kind) for kind in self.columns.values())]
            names = ["id", *self.columns]
            values = ", ".join([str(key), *cells[1:]])
            yield f"REPLACE INTO t ({', '.join(names)}) VALUES ({values})"
        elif verb == "DELETE":
            yield f"DELETE FROM t WHERE id BETWEEN {key} AND {key + 2}"
        elif self.columns and self.some.random() < 0.7:
            name = self.some.choice(list(self.columns))
            yield f"UPDATE t SET {name} = {self.value(self.columns[name])} WHERE id >= {key}"
        else:
            yield f"UPDATE IGNORE t SET id = id + 5 WHERE id = {key}"

    def add(self) -> Iterator[str]:
        name, kind = self.new_name(), self.kind()
        declared = KINDS[kind][0]
        if KINDS[kind][1] and self.some.random() < 0.6:
            declared += f" DEFAULT {self.some.choice(KINDS[kind][1])}"
        place = self.some.choice(["", " FIRST", " AFTER id"])
        self.columns[name] = kind
        yield f"ALTER TABLE t ADD COLUMN {name} {declared}{place}"

    def alter(self) -> Iterator[str]:
        if not self.columns:
            return
        name = self.some.choice(list(self.columns))
        kind = self.columns[name]
        match self.some.randrange(5):
            case 0:
                del self.columns[name]
                yield f"ALTER TABLE t DROP COLUMN {name}"
            case 1:
                new = self.new_name()
                self.columns[new] = self.columns.pop(name)
                yield f"ALTER TABLE t RENAME COLUMN {name} TO {new}"
            case 2 if KINDS[kind][2]:
                new = self.new_name()
                KINDS.append((str(KINDS[kind][2]), KINDS[kind][1], None))
                del self.columns[name]
                self.columns[new] = len(KINDS) - 1
                yield f"ALTER TABLE t CHANGE {name} {new} {KINDS[kind][2]}{self.some.choice(['', ' FIRST'])}"
            case 3 if len(self.columns) > 1:
                other = self.some.choice([one for one in self.columns if one != name])
                self.columns[name], self.columns[other] = self.columns[other], self.columns[name]
                yield f"ALTER TABLE t RENAME COLUMN {name} TO {other}, RENAME COLUMN {other} TO {name}"
            case _:
                yield self.some.choice(
                    [
                        "ALTER TABLE t COMMENT = 'no, nothing'",
                        "ALTER TABLE t ADD INDEX (id), ALGORITHM = INPLACE",
                        f"ALTER TABLE t MODIFY COLUMN {name} {KINDS[kind][0]} AFTER id",
                    ]
                )

    def key(self) -> Iterator[str]:
        """The primary key goes, or comes back, over other columns of numbers too; a unique index in its place."""
        if not self.is_keyed:
            yield "DELETE FROM t WHERE id IN (SELECT id FROM (SELECT id FROM t GROUP BY id HAVING COUNT(*) > 1) AS d)"
            yield "ALTER TABLE t ADD PRIMARY KEY (id)"
        elif self.some.random() < 0.5:
            name = self.new_name()
            self.columns[name] = next(at for at, (kind, _, _) in enumerate(KINDS) if kind == "INT")
            declared = f"ADD COLUMN {name} INT NOT NULL DEFAULT 7"
            yield f"ALTER TABLE t DROP PRIMARY KEY, {declared}, ADD PRIMARY KEY ({name}, id)"
            yield f"UPDATE IGNORE t SET {name} = id WHERE id > 5"
            yield f"ALTER TABLE t DROP PRIMARY KEY, MODIFY {name} INT, ADD PRIMARY KEY (id)"
            return
        else:
            yield "ALTER TABLE t DROP PRIMARY KEY"
        self.is_keyed = not self.is_keyed

    def truncate(self) -> Iterator[str]:
        yield "TRUNCATE TABLE t"

    def again(self) -> Iterator[str]:
        yield "DROP TABLE t"
        yield self.create()
