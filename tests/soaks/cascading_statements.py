"""Random statements about tables that foreign keys join: columns, keys, names, and what a server does to rows by them.

Put here: making them. Not here: the tables, their rows and transactions (cascading.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from spark_jobs.binlog import TableName
from tests.soaks.cascading import COLUMNS, RandomTables

_TYPES = {"n": "INT", "r": "INT", "x": "", "s": ""}
"""Of columns that keys are of or refer to; empty for text."""


@dataclass
class RandomStatements:
    """Statements about the tables of a schema.

    Attributes:
        renamed: a column with another name, its table and its own: transactions need that again.
    """

    tables: RandomTables
    renamed: tuple[str, str, str] | None = None

    def execute(self, number: int) -> str:
        """A statement about a table, or its keys, and what it is. number: of the statement, for new names."""
        kinds: dict[str, Callable[[str, int], None]] = {
            "column changed": self._widen_column,
            "column added": self._add_column,
            "column dropped, or table truncated": self._drop_column,
            "key dropped": self._drop_key,
            "key added": self._add_key,
            "truncated without checks": self._truncate_table,
            "dropped and made again": self._make_again,
            "column renamed": self._rename_column,
            "table renamed": self._rename_table,
            "tables exchanged": self._exchange_tables,
        }
        kind = self.tables.chance.choice([*kinds])
        kinds[kind](self.tables.random_table(), number)
        return kind

    def restore(self) -> None:
        """Gives a column its own name again."""
        if self.renamed:
            table, first_name, name = self.renamed
            self._change_column(table, name, first_name)
            self.renamed = None

    def _widen_column(self, table: str, _number: int) -> None:
        self.tables.attempt(f"ALTER TABLE {table} MODIFY v BIGINT")

    def _add_column(self, table: str, number: int) -> None:
        self.tables.attempt(f"ALTER TABLE {table} ADD COLUMN e{number} INT NOT NULL DEFAULT {number}")

    def _drop_column(self, table: str, _number: int) -> None:
        columns = self.tables.database.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
            (self.tables.database.name, table),
        )
        added = sorted({name for (name,) in columns} - {*COLUMNS})
        action = f"ALTER TABLE {table} DROP COLUMN {self.tables.chance.choice(added)}" if added else f"TRUNCATE {table}"
        self.tables.attempt(action)

    def _drop_key(self, _table: str, _number: int) -> None:
        references = self.tables.references
        if len(references) > 1:
            reference = references.pop(self.tables.chance.randrange(len(references)))
            self.tables.database.execute(f"ALTER TABLE {reference.child.table} DROP FOREIGN KEY {reference.key.name}")

    def _add_key(self, _table: str, number: int) -> None:
        self.tables.try_key(f"g{number}")

    def _truncate_table(self, table: str, _number: int) -> None:
        """Rows of a parent go, and no key does anything to its children."""
        self._execute_unchecked(f"TRUNCATE TABLE {table}")

    def _make_again(self, table: str, _number: int) -> None:
        """Keys that refer to the table stay, its own go with it."""
        self._execute_unchecked(f"DROP TABLE {table}", self.tables.definition_of(table))
        self.tables.references[:] = [known for known in self.tables.references if known.child.table != table]

    def _execute_unchecked(self, *statements: str) -> None:
        self.tables.database.execute("SET foreign_key_checks = 0")
        for statement in statements:
            self.tables.database.execute(statement)
        self.tables.database.execute("SET foreign_key_checks = 1")

    def _rename_table(self, table: str, number: int) -> None:
        """Its keys, and those that refer to it, follow."""
        name = f"t{number}_{table.partition('_')[0]}"[:12]
        if name not in self.tables.columns:
            self._give_names({table: name}, f"{table} TO {name}")

    def _exchange_tables(self, table: str, _number: int) -> None:
        """Two tables get each second's names, in one statement."""
        second = self.tables.random_table()
        if second != table:
            self._give_names(
                {table: second, second: table},
                f"{table} TO between_both, {second} TO {table}, between_both TO {second}",
            )

    def _give_names(self, names: dict[str, str], renames: str) -> None:
        self.tables.database.execute(f"RENAME TABLE {renames}")
        self.tables.columns = {names.get(known, known): columns for known, columns in self.tables.columns.items()}
        self.tables.references[:] = [
            replace(
                known,
                child=_name_after(known.child, names),
                key=replace(known.key, parent=_name_after(known.key.parent, names)),
            )
            for known in self.tables.references
        ]

    def _rename_column(self, table: str, number: int) -> None:
        """Rows of parents go and move while a column has another name, which it may keep until the next run."""
        first_name = self.tables.chance.choice([*_TYPES])
        self._change_column(table, first_name, f"{first_name}_{number}")
        self.renamed = table, first_name, f"{first_name}_{number}"
        for _ in range(3):
            self.tables.attempt(self.tables.parent_statement())
        if self.tables.chance.random() < 0.5:
            self.restore()

    def _change_column(self, table: str, old: str, new: str) -> None:
        kind = _TYPES[min(old, new, key=len)] or self.tables.text
        self.tables.database.execute(f"ALTER TABLE {table} CHANGE {old} {new} {kind}")


def _name_after(table: TableName, names: dict[str, str]) -> TableName:
    return replace(table, table=names.get(table.table, table.table))
