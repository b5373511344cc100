"""Clients of Iceberg catalogs: a name is created, pointed to another file of table metadata, or dropped.

Put here: the REST catalog's, AWS Glue's and Hive metastore's ways to keep the location of a table's metadata. Not here:
which tables are registered (pipeline/iceberg_catalog.py).

A table's metadata is written beside Delta's log, so none of these clients commits through a catalog: that would write
another file of metadata. pyiceberg reads the configuration and signs in; its own ``register_table`` cannot replace an
entry of Glue or Hive, which is why these are written here, by "Glue" and "Hive" of Iceberg's documentation: the
parameters ``table_type`` and ``metadata_location``.
"""

import getpass
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from spark_jobs.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 30.0
"""A catalog that does not answer for as long has failed."""
_LOCATION = "metadata_location"
_PREVIOUS = "previous_metadata_location"
_TYPE = "table_type"
_ICEBERG = "ICEBERG"
_EXTRA = "pip install 'stratalog[iceberg-catalog]'"
_HIVE_TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
}
"""Types of columns in Glue and Hive; readers of Iceberg go by the metadata."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as a catalog is told of it."""

    namespace: str
    name: str
    location: str
    metadata: str
    """Location of the file of table metadata."""
    columns: tuple[tuple[str, str], ...]
    """Names and Hive's types."""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """An entry of a catalog."""

    metadata: str | None
    """Location of the file of table metadata; None of a table that is no Iceberg table."""
    token: Any = None
    """The catalog's own mark of this state of the entry, which a replacement needs."""


class CatalogClient(Protocol):
    """A catalog. All methods raise what the catalog's own client raises."""

    def entry(self, namespace: str, name: str) -> CatalogEntry | None:
        """The entry of a name; None if there is none."""

    def create(self, table: CatalogTable) -> None:
        """Create an entry, and its namespace."""

    def replace(self, table: CatalogTable, entry: CatalogEntry) -> None:
        """Points an entry to other metadata."""

    def drop(self, namespace: str, name: str) -> None:
        """Remove an entry. Files stay."""


def hive_columns(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Columns of a table's current schema, with Hive's types."""
    number = document["current-schema-id"]
    schema = next(item for item in document["schemas"] if item["schema-id"] == number)
    return tuple((field["name"], _hive_type(field["type"])) for field in schema["fields"])


def _hive_type(kind: Any) -> str:
    match kind:
        case str():
            return _HIVE_TYPES.get(kind, kind.replace(" ", ""))
        case {"type": "list", "element": element}:
            return f"array<{_hive_type(element)}>"
        case {"type": "map", "key": key, "value": value}:
            return f"map<{_hive_type(key)},{_hive_type(value)}>"
        case _:
            fields = (f"{field['name']}:{_hive_type(field['type'])}" for field in kind["fields"])
            return f"struct<{','.join(fields)}>"


def connect(name: str, properties: Mapping[str, str]) -> CatalogClient:
    """A client of the catalog of a name, with properties from pyiceberg's configuration and these.

    Raises ConfigError, and what the catalog's own client raises.
    """
    if find_spec("pyiceberg") is None:
        raise ConfigError(f"iceberg_catalog: needs pyiceberg: {_EXTRA}")
    from pyiceberg.utils.config import Config

    # What pipeline.yaml says goes before the environment and the file.
    merged: dict[str, Any] = {**(Config().get_catalog_config(name) or {}), **properties}
    kind = str(merged.get("type") or _kind_of(str(merged.get("uri", "")))).lower()
    makers: dict[str, Callable[[str, dict[str, Any]], CatalogClient]] = {"rest": _Rest, "glue": _Glue, "hive": _Hive}
    if kind not in makers:
        variable = f"PYICEBERG_CATALOG__{name.upper().replace('-', '_')}__URI"
        raise ConfigError(
            f"iceberg_catalog: catalog {name} has no type: set properties.type (rest, glue or hive), or {variable}"
        )
    try:
        return makers[kind](name, merged)
    except (ModuleNotFoundError, KeyError) as error:
        if isinstance(error, KeyError):
            raise ConfigError(f"iceberg_catalog: catalog {name} needs the property {error.args[0]}") from error
        raise ConfigError(f"iceberg_catalog: {kind} needs the package {error.name}: {_EXTRA}") from error


def _kind_of(uri: str) -> str:
    scheme = uri.partition(":")[0]
    return {"http": "rest", "https": "rest", "thrift": "hive"}.get(scheme, "")


class _Rest:
    """A REST catalog."""

    def __init__(self, name: str, properties: dict[str, Any]) -> None:
        properties["uri"]
        from pyiceberg.catalog.rest import RestCatalog

        class Limited(RestCatalog):
            """Catalog with a limit to how long a request may take: there is none otherwise."""

            def _config_headers(self, session: Any) -> None:
                # The first that is done with a new session, before it signs in.
                session.request = partial(session.request, timeout=_SECONDS)
                super()._config_headers(session)

        self.catalog: Any = Limited(name, **properties)

    def entry(self, namespace: str, name: str) -> CatalogEntry | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return CatalogEntry(self.catalog.load_table(self._identifier(namespace, name)).metadata_location)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def create(self, table: CatalogTable) -> None:
        levels = tuple(table.namespace.split("."))
        for depth in range(1, len(levels) + 1):
            self.catalog.create_namespace_if_not_exists(levels[:depth])
        self.catalog.register_table(self._identifier(table.namespace, table.name), table.metadata)

    def replace(self, table: CatalogTable, entry: CatalogEntry) -> None:  # noqa: ARG002 -- it has no condition to ask for
        from pyiceberg.exceptions import TableAlreadyExistsError

        identifier = self._identifier(table.namespace, table.name)
        try:
            self.catalog.register_table(identifier, table.metadata, overwrite=True)
        except TableAlreadyExistsError:
            # The server does not know overwrite: for a moment there is no such table.
            self.catalog.drop_table(identifier, purge_requested=False)
            self.catalog.register_table(identifier, table.metadata)

    def drop(self, namespace: str, name: str) -> None:
        self.catalog.drop_table(self._identifier(namespace, name), purge_requested=False)

    def _identifier(self, namespace: str, name: str) -> tuple[str, ...]:
        return (*namespace.split("."), name)


class _Glue:
    """AWS Glue, whose names are in small letters."""

    def __init__(self, name: str, properties: dict[str, Any]) -> None:
        from pyiceberg.catalog.glue import GlueCatalog

        self.glue: Any = GlueCatalog(name, **properties).glue

    def entry(self, namespace: str, name: str) -> CatalogEntry | None:
        try:
            table = self.glue.get_table(DatabaseName=namespace.lower(), Name=name.lower())["Table"]
        except self.glue.exceptions.EntityNotFoundException:
            return None
        return CatalogEntry(table.get("Parameters", {}).get(_LOCATION), table)

    def create(self, table: CatalogTable) -> None:
        database = table.namespace.lower()
        try:
            self.glue.get_database(Name=database)
        except self.glue.exceptions.EntityNotFoundException:
            self.glue.create_database(DatabaseInput={"Name": database})
        self.glue.create_table(DatabaseName=database, TableInput=_glue_input(table, {}))

    def replace(self, table: CatalogTable, entry: CatalogEntry) -> None:
        # An update of another version than the one that was read is refused by Glue.
        version = {"VersionId": entry.token["VersionId"]} if entry.token.get("VersionId") else {}
        parameters = {**entry.token.get("Parameters", {}), _PREVIOUS: entry.metadata or ""}
        self.glue.update_table(
            DatabaseName=table.namespace.lower(), TableInput=_glue_input(table, parameters), SkipArchive=True, **version
        )

    def drop(self, namespace: str, name: str) -> None:
        self.glue.delete_table(DatabaseName=namespace.lower(), Name=name.lower())


def _glue_input(table: CatalogTable, parameters: dict[str, str]) -> dict[str, Any]:
    return {
        "Name": table.name.lower(),
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {**parameters, "EXTERNAL": "TRUE", _TYPE: _ICEBERG, _LOCATION: table.metadata},
        "StorageDescriptor": {
            "Columns": [{"Name": column, "Type": kind} for column, kind in table.columns],
            "Location": table.location,
        },
    }


class _Hive:
    """A Hive metastore, by Thrift; its names are in small letters."""

    def __init__(self, _name: str, properties: dict[str, Any]) -> None:
        self.uris = [uri.strip() for uri in str(properties["uri"]).split(",")]
        self.properties = properties
        import hive_metastore  # noqa: F401 -- of pyiceberg, and imports thrift, which the first call would lack
        import thrift  # noqa: F401

    @contextmanager
    def _client(self) -> "Iterator[Any]":
        """A client of the first metastore that answers."""
        from hive_metastore.ThriftHiveMetastore import Client
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport import TSocket, TTransport

        # Several metastores are the same one.
        transport: Any = None
        for at, uri in enumerate(self.uris):
            address = urlsplit(uri)
            plain = TSocket.TSocket(address.hostname, address.port or 9083)
            plain.setTimeout(_SECONDS * 1000)
            service = self.properties.get("hive.kerberos-service-name", "hive")
            is_kerberos = str(self.properties.get("hive.kerberos-authentication", "")).lower() == "true"
            transport = (
                TTransport.TSaslClientTransport(plain, host=address.hostname, service=service)
                if is_kerberos
                else TTransport.TBufferedTransport(plain)
            )
            try:
                transport.open()
                break
            except TTransport.TTransportException:
                if at == len(self.uris) - 1:
                    raise
        try:
            client = Client(TBinaryProtocol(transport))
            if ugi := self.properties.get("ugi"):
                client.set_ugi(*str(ugi).split(":"))
            yield client
        finally:
            transport.close()

    def entry(self, namespace: str, name: str) -> CatalogEntry | None:
        from hive_metastore.ttypes import NoSuchObjectException

        with self._client() as client:
            try:
                table = client.get_table(dbname=namespace.lower(), tbl_name=name.lower())
            except NoSuchObjectException:
                return None
        return CatalogEntry(table.parameters.get(_LOCATION), table)

    def create(self, table: CatalogTable) -> None:
        from hive_metastore.ttypes import AlreadyExistsException, Database, NoSuchObjectException, Table

        with self._client() as client:
            try:
                client.get_database(name=table.namespace.lower())
            except NoSuchObjectException:
                with suppress(AlreadyExistsException):  # by another run, meanwhile
                    client.create_database(Database(name=table.namespace.lower(), parameters={}))
            client.create_table(
                Table(
                    dbName=table.namespace.lower(),
                    tableName=table.name.lower(),
                    owner=getpass.getuser(),
                    sd=_storage_descriptor(table),
                    tableType="EXTERNAL_TABLE",
                    parameters={"EXTERNAL": "TRUE", _TYPE: _ICEBERG, _LOCATION: table.metadata},
                )
            )

    def replace(self, table: CatalogTable, entry: CatalogEntry) -> None:
        from hive_metastore.ttypes import EnvironmentContext, InvalidOperationException

        # As Iceberg commits without Hive's locks: a metastore that knows this condition (HIVE-26882) refuses to alter
        # another state than the one that was read.
        expected = {"expected_parameter_key": _LOCATION, "expected_parameter_value": entry.metadata or ""}
        context = EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true", **expected})
        database, name, altered = table.namespace.lower(), table.name.lower(), entry.token
        altered.parameters = {**altered.parameters, _PREVIOUS: entry.metadata or "", _LOCATION: table.metadata}
        before, altered.sd = altered.sd, _storage_descriptor(table)
        with self._client() as client:
            try:
                client.alter_table_with_environment_context(database, name, altered, context)
            except InvalidOperationException:
                # hive.metastore.disallow.incompatible.col.type.changes: columns in Hive are for show alone.
                altered.sd = before
                client.alter_table_with_environment_context(database, name, altered, context)

    def drop(self, namespace: str, name: str) -> None:
        with self._client() as client:
            client.drop_table(dbname=namespace.lower(), name=name.lower(), deleteData=False)


def _storage_descriptor(table: CatalogTable) -> Any:
    from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor

    return StorageDescriptor(
        [FieldSchema(column, kind, None) for column, kind in table.columns],
        table.location,
        "org.apache.hadoop.mapred.FileInputFormat",
        "org.apache.hadoop.mapred.FileOutputFormat",
        serdeInfo=SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
    )
