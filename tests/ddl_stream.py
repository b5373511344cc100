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


class Stream:
    """Statements about one table, chosen at random; it knows the table's columns.

    keys: the key changes, too. old: as MySQL 5.7 wants it, which does not know RENAME COLUMN, and whose log tells no
    character set where no statement does.
    """

    def __init__(self, seed: int, *, keys: bool = False, old: bool = False) -> None:
        self.keys, self.old = keys, old
        self.some = random.Random(seed)
        self.kinds = [*KINDS]
        """With the wider types that columns have got: a column is known by the place of its kind here."""
        self.columns: dict[str, int] = {}
        self.names = 0
        self.told_by = "PRIMARY"
        """By what rows are told apart: PRIMARY or UNIQUE (id), PAIR (a primary key over two), NULLABLE or NOTHING."""
        self.pair = ""
        """Of a PAIR the column beside id."""

    def statements(self, count: int) -> Iterator[str]:
        yield self.create()
        for _ in range(count):
            yield from self.some.choices(
                [self.rows, self.alter, self.add, self.key, self.truncate, self.again],
                weights=[60, 16, 16, 10 * self.keys, 4, 4],
            )[0]()

    def create(self) -> str:
        self.told_by, self.pair = "PRIMARY", ""
        self.columns = {self.new_name(): self.kind() for _ in range(self.some.randrange(4))}
        listed = "".join(f", {name} {self.kinds[kind][0]}" for name, kind in self.columns.items())
        return f"CREATE TABLE t (id INT PRIMARY KEY{listed}){' CHARACTER SET utf8mb4' * self.old}"

    def new_name(self) -> str:
        self.names += 1
        return self.some.choice([f"c{self.names}", f"`Column {self.names}`", f"`weird,;{{}}()=.{self.names}`"])

    def kind(self) -> int:
        return self.some.randrange(len(self.kinds))

    def value(self, kind: int) -> str:
        return self.some.choice([*self.kinds[kind][1], "NULL"]) if self.kinds[kind][1] else "'text'"

    def rows(self) -> Iterator[str]:
        verb, key = self.some.choice(["REPLACE", "REPLACE", "DELETE", "UPDATE"]), self.some.randrange(12)
        if verb == "REPLACE":
            cells = ["t.id", *(self.value(kind) for kind in self.columns.values())]
            names = ["id", *self.columns]
            if self.pair:
                names.append(self.pair)
                cells.append(self.some.choice(["7", "8"]))
            values = ", ".join([str(key), *cells[1:]])
            yield f"REPLACE INTO t ({', '.join(names)}) VALUES ({values})"
        elif verb == "DELETE":
            yield f"DELETE FROM t WHERE id BETWEEN {key} AND {key + 2}"
        elif self.pair and self.some.random() < 0.3:
            yield f"UPDATE IGNORE t SET {self.pair} = 15 - {self.pair} WHERE id >= {key}"
        elif self.columns and self.some.random() < 0.7:
            name = self.some.choice(list(self.columns))
            yield f"UPDATE t SET {name} = {self.value(self.columns[name])} WHERE id >= {key}"
        else:
            yield f"UPDATE IGNORE t SET id = id + 5 WHERE id = {key}"

    def add(self) -> Iterator[str]:
        name, kind = self.new_name(), self.kind()
        declared = self.kinds[kind][0]
        if self.kinds[kind][1] and self.some.random() < 0.6:
            declared += f" DEFAULT {self.some.choice(self.kinds[kind][1])}"
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
                yield f"ALTER TABLE t {self.rename(name, new)}"
            case 2 if self.kinds[kind][2]:
                new = self.new_name()
                self.kinds.append((str(self.kinds[kind][2]), self.kinds[kind][1], None))
                del self.columns[name]
                self.columns[new] = len(self.kinds) - 1
                yield f"ALTER TABLE t CHANGE {name} {new} {self.kinds[kind][2]}{self.some.choice(['', ' FIRST'])}"
            case 3 if len(self.columns) > 1:
                other = self.some.choice([one for one in self.columns if one != name])
                self.columns[name], self.columns[other] = self.columns[other], self.columns[name]
                yield f"ALTER TABLE t {self.rename(name, other)}, {self.rename(other, name)}"
            case _:
                yield self.some.choice(
                    [
                        "ALTER TABLE t COMMENT = 'no, nothing'",
                        "ALTER TABLE t ADD INDEX (id), ALGORITHM = INPLACE",
                        f"ALTER TABLE t MODIFY COLUMN {name} {self.kinds[kind][0]} AFTER id",
                    ]
                )

    def rename(self, old: str, new: str) -> str:
        """The clause for a column that the stream already knows by its new name."""
        kind, _, _ = self.kinds[self.columns[new]]
        return f"CHANGE {old} {new} {kind}" if self.old else f"RENAME COLUMN {old} TO {new}"

    def key(self) -> Iterator[str]:
        """By another key, or by none, rows are told apart from here on."""
        goes = self.goes()
        self.told_by = self.some.choice([one for one in self.comes() if one != self.told_by])
        if self.told_by in ("PRIMARY", "UNIQUE", "PAIR"):
            yield "DELETE FROM t WHERE id IN (SELECT id FROM (SELECT id FROM t GROUP BY id HAVING COUNT(*) > 1) AS d)"
        match self.told_by:
            case "PRIMARY":
                goes.append("ADD PRIMARY KEY (id)")
            case "UNIQUE":
                goes.append("ADD UNIQUE u (id)")
            case "NULLABLE":
                goes = ["MODIFY id INT"]
            case "PAIR":
                self.pair = self.new_name()
                declared = f"ADD COLUMN {self.pair} INT NOT NULL DEFAULT 7"
                goes += [declared, f"ADD PRIMARY KEY ({self.pair}, id)"]
        yield f"ALTER TABLE t {', '.join(goes)}"

    def comes(self) -> list[str]:
        """By what rows may be told apart behind the next change."""
        return ["PRIMARY", "UNIQUE", "PAIR", "NOTHING", *(["NULLABLE"] if self.told_by == "UNIQUE" else [])]

    def goes(self) -> list[str]:
        """What takes the present key away, whose other column is one like others behind that."""
        match self.told_by:
            case "PRIMARY":
                return ["DROP PRIMARY KEY"]
            case "UNIQUE":
                return ["DROP INDEX u"]
            case "NULLABLE":
                return ["DROP INDEX u", "MODIFY id INT NOT NULL"]
            case "PAIR":
                name, self.pair = self.pair, ""
                self.columns[name] = next(at for at, (kind, _, _) in enumerate(self.kinds) if kind == "INT")
                return ["DROP PRIMARY KEY", f"MODIFY {name} INT"]
        return []

    def truncate(self) -> Iterator[str]:
        yield "TRUNCATE TABLE t"

    def again(self) -> Iterator[str]:
        yield "DROP TABLE t"
        yield self.create()
