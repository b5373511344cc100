"""Privileges that a delivery needs at its target, and the GRANT statements for those that its user lacks.

Put here: which privileges, and what a denial says of them. Not here: reading SHOW GRANTS (source/grants.py), or the
classes of errors (target.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.delivery.lake_table import LakeTable
from spark_jobs.delivery.progress import SCHEMA
from spark_jobs.delivery.target import Connection
from spark_jobs.errors import DeliveryDenied, DeliveryError
from spark_jobs.source.connection import error_number
from spark_jobs.source.grants import Grants, current_account, current_grants
from spark_jobs.text.sql import identifier

_ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_DDL = ("CREATE", "ALTER")
_TRUNCATE = ("DROP",)
_OF_PROGRESS = ("SELECT", "INSERT", "UPDATE", "CREATE")
_LACKS_GRANT = {1044, 1142, 1143}
"""Numbers of errors by which a server refuses a statement about a schema, a table or a column."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Privileges that a user lacks on a schema; ``*`` is every one."""

    schema: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.names)} on {self.schema}.*"

    def grant(self, account: str) -> str:
        """Statement that gives them. account: the user as statements name it."""
        schema = "*" if self.schema == "*" else identifier(self.schema)
        return f"GRANT {', '.join(self.names)} ON {schema}.* TO {account}"


def grants_at(connection: Connection) -> Grants:
    """The privileges of the user, with those of its active roles. Raises DeliveryError."""
    facts = connection.facts
    return current_grants(connection.ask, has_roles=not facts.is_mariadb and facts.numbers >= (8, 0))


def missing_privileges(
    grants: Grants, settings: Delivery, tables: Iterable[Pattern], *, is_reload: bool = False
) -> list[Missing]:
    """Privileges that a delivery lacks: on the schema of its progress, and on those of tables.

    is_reload: the tables are emptied first.
    """
    has_truncate = is_reload or settings.apply == "ordered"
    names = (*_ROWS, *(_DDL if settings.ddl == "apply" else ()), *(_TRUNCATE if has_truncate else ()))
    lacking: dict[str, dict[str, None]] = {}
    for pattern, required in [(Pattern(SCHEMA, "*"), _OF_PROGRESS), *((table, names) for table in tables)]:
        for name in required:
            if not any(grant.covers(pattern) for grant in grants.of(name)):
                lacking.setdefault(pattern.schema, {})[name] = None
    return [Missing(schema, tuple(by_name)) for schema, by_name in lacking.items()]


@contextmanager
def granting(
    connection: Connection, settings: Delivery, tables: Sequence[LakeTable], *, is_reload: bool = False
) -> Iterator[None]:
    """Add the GRANT statements to type to a denial in the ``with`` block. Raises DeliveryDenied.

    connection: asks the target for the user's privileges. tables: those that the block is about. is_reload: they are
    emptied first.
    """
    try:
        yield
    except DeliveryDenied as error:
        if error_number(error.__cause__) not in _LACKS_GRANT:
            raise
        statements = _grants_to_type(connection, settings, tables, is_reload=is_reload)
        if not statements:
            raise
        raise DeliveryDenied(f"{error}: {'; '.join(statements)}") from error


def _grants_to_type(
    connection: Connection, settings: Delivery, tables: Sequence[LakeTable], *, is_reload: bool
) -> list[str]:
    """GRANT statements for what is missing; none where the target does not tell."""
    patterns = [Pattern(table.schema, table.name) for table in tables]
    try:
        missing = missing_privileges(grants_at(connection), settings, patterns, is_reload=is_reload)
        account = current_account(connection.ask) if missing else ""
    except DeliveryError:
        return []
    return [lacking.grant(account) for lacking in missing]
