"""The statements that gh-ost and pt-online-schema-change log, played on a server with writers between them.

Source: gh-ost, go/logic/applier.go, go/logic/migrator.go and go/sql/builder.go; percona-toolkit,
bin/pt-online-schema-change (``create_new_table``, ``create_triggers``, ``swap_tables``).

Put here: playing them. Not here: what is to come of it (tests/pipeline/test_renames.py).
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

Execute = Callable[[str], Sequence[tuple[Any, ...]]]


class Writers:
    """Writes rows (id INT, v INT, note VARCHAR) of a table ``t``; ``backlog`` is what was done to which ids."""

    def __init__(self, execute: Execute, seed: int) -> None:
        self.execute = execute
        self.random = Random(seed)
        self.backlog: list[tuple[str, int]] = []
        self.next = 1

    def begin(self, rows: int) -> None:
        values = ", ".join(f"({at}, {at}, 'n{at}')" for at in range(1, rows + 1))
        self.execute(f"INSERT INTO t (id, v, note) VALUES {values}")
        self.next = rows + 1

    def write(self, statements: int = 4) -> None:
        for _ in range(statements):
            action, at = self.random.choice("iud"), self.random.randrange(1, self.next)
            if action == "i":
                at = self.next
                self.execute(f"INSERT INTO t (id, v, note) VALUES ({at}, {at}, NULL)")
                self.next += 1
            elif action == "u":
                self.execute(f"UPDATE t SET v = v + 100, note = 'u{at}' WHERE id = {at}")
            else:
                self.execute(f"DELETE FROM t WHERE id = {at}")
            self.backlog.append((action, at))


def gh_ost(execute: Execute, schema: str, alter: str, writers: Writers) -> Iterator[str]:
    """A migration of ``t``, whose columns id, v and note are copied; yields after each of its steps."""
    t, gho, ghc, old = (f"`{schema}`.`{name}`" for name in ("t", "_t_gho", "_t_ghc", "_t_del"))
    hint = f"/* gh-ost {t} */"
    execute(f"drop /* gh-ost */ table if exists {gho}")
    execute(f"drop /* gh-ost */ table if exists {old}")
    execute(f"drop /* gh-ost */ table if exists {ghc}")
    execute(
        f"create /* gh-ost */ table {ghc} (\n\t\t\tid bigint auto_increment,\n\t\t\tlast_update timestamp not null "
        "DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,\n\t\t\thint varchar(64) charset ascii not null,\n\t\t\t"
        "value varchar(4096) charset ascii not null,\n\t\t\tprimary key(id),\n\t\t\tunique key hint_uidx(hint)\n\t\t) "
        "auto_increment=256\n\t\t"
    )
    execute(f"create /* gh-ost */ table {gho} like {t}")
    execute(f"alter /* gh-ost */ table {gho} {alter}")
    writers.backlog.clear()
    yield "made"
    for low, high in ((1, 4), (4, 9), (9, 1 << 30)):
        execute(
            f"insert /* gh-ost */ into {ghc} (id, hint, value) values (NULLIF(1, 0), 'heartbeat', '{low}') "
            "on duplicate key update last_update=NOW(), value=VALUES(value)"
        )
        execute(
            f"insert {hint} ignore into {gho} (`id`, `v`, `note`) (select `id`, `v`, `note` from {t} force index "
            f"(`PRIMARY`) where (((`id` > _binary'{low}') or ((`id` = _binary'{low}'))) and ((`id` < _binary'{high}'))"
            ") lock in share mode)"
        )
        yield f"copied below {high}"
        writers.write()
        yield f"written behind {high}"
        if high < 100:
            _apply(execute, t, gho, hint, writers)
            yield f"applied behind {high}"
    execute(
        f"create /* gh-ost */ table {old} (\n\t\t\tid int auto_increment primary key\n\t\t) engine=InnoDB "
        "comment='ghost-cut-over-sentry'"
    )
    execute(f"lock /* gh-ost */ tables {t} write, {old} write, {gho} write")
    _apply(execute, t, gho, hint, writers)
    execute(f"drop /* gh-ost */ table if exists {old}")
    execute("unlock tables")
    execute(f"rename /* gh-ost */ table {t} to {old}, {gho} to {t}")
    writers.write()
    yield "cut over"
    execute(f"drop /* gh-ost */ table if exists {ghc}")
    execute(f"drop /* gh-ost */ table if exists {old}")
    writers.write()
    yield "done"


def _apply(execute: Execute, t: str, gho: str, hint: str, writers: Writers) -> None:
    """What was logged about the table, done to the ghost: rows as they are now, which comes to the same in the end."""
    for action, at in writers.backlog:
        row = execute(f"SELECT v, note FROM {t} WHERE id = {at}")
        if not row or action == "d":
            execute(f"delete {hint} from {gho} where ((`id` = {at}))")
        elif action == "i":
            execute(
                f"replace {hint} into {gho} (`id`, `v`, `note`) values ({at}, {row[0][0]}, {_sql_literal(row[0][1])})"
            )
        else:
            execute(f"update {hint} {gho} set `v`={row[0][0]}, `note`={_sql_literal(row[0][1])} where ((`id` = {at}))")
    writers.backlog.clear()


def _sql_literal(value: object) -> str:
    return "NULL" if value is None else f"'{value}'"


def pt_osc(execute: Execute, schema: str, create: str, alter: str, writers: Writers) -> Iterator[str]:
    """A migration of ``t``; ``create``: what stands behind the table's name in its SHOW CREATE TABLE."""
    t, new, old = (f"`{schema}`.`{name}`" for name in ("t", "_t_new", "_t_old"))
    execute(f"CREATE TABLE {new} {create}")
    execute(f"ALTER TABLE {new} {alter}")
    name = f"pt_osc_{schema}_t"
    execute(
        f"CREATE TRIGGER `{name}_del` AFTER DELETE ON {t} FOR EACH ROW DELETE IGNORE FROM {new} "
        f"WHERE {new}.`id` <=> OLD.`id`"
    )
    execute(
        f"CREATE TRIGGER `{name}_upd` AFTER UPDATE ON {t} FOR EACH ROW BEGIN DELETE IGNORE FROM {new} WHERE "
        f"!(OLD.`id` <=> NEW.`id`) AND {new}.`id` <=> OLD.`id`;REPLACE INTO {new} (`id`, `v`, `note`) VALUES "
        "(NEW.`id`, NEW.`v`, NEW.`note`);END"
    )
    execute(
        f"CREATE TRIGGER `{name}_ins` AFTER INSERT ON {t} FOR EACH ROW REPLACE INTO {new} (`id`, `v`, `note`) VALUES "
        "(NEW.`id`, NEW.`v`, NEW.`note`)"
    )
    writers.write()
    yield "made"
    for low, high in ((1, 4), (4, 9), (9, 1 << 30)):
        execute(
            f"INSERT LOW_PRIORITY IGNORE INTO {new} (`id`, `v`, `note`) SELECT `id`, `v`, `note` FROM {t} FORCE INDEX "
            f"(`PRIMARY`) WHERE ((`id` >= '{low}')) AND ((`id` < '{high}')) LOCK IN SHARE MODE "
            "/*pt-online-schema-change 4711 copy nibble*/"
        )
        writers.write()
        yield f"copied below {high}"
    execute(f"ANALYZE TABLE {new} /* pt-online-schema-change */")
    execute(f"RENAME TABLE {t} TO {old}, {new} TO {t}")
    for event in ("del", "upd", "ins"):
        execute(f"DROP TRIGGER IF EXISTS `{schema}`.`{name}_{event}`")
    writers.write()
    yield "swapped"
    execute(f"DROP TABLE IF EXISTS {old}")
    writers.write()
    yield "done"
