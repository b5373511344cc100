"""The types of columns: one file a family, one registry.

TYPES maps a type code (MySQL include/field_types.h) to how a column of it is named and read, DECLARED the name of a
type that the log writes as another. A new type is a class in the file of its family and a line here.

Put here: the registry. Not here: what any type does.
"""

from spark_jobs.binlog.types.base import ColumnType, Refused
from spark_jobs.binlog.types.compressed import COMPRESSED_BLOB, COMPRESSED_VARCHAR
from spark_jobs.binlog.types.decimal import DECIMAL
from spark_jobs.binlog.types.enum_set import ENUM, SET
from spark_jobs.binlog.types.json import JSON
from spark_jobs.binlog.types.legacy_temporal import OLD_DATETIME, OLD_TIME, OLD_TIMESTAMP
from spark_jobs.binlog.types.numeric import (
    BIGINT,
    BIT,
    DOUBLE,
    FLOAT,
    INT,
    MEDIUMINT,
    SMALLINT,
    TINYINT,
    EitherSign,
    Integer,
)
from spark_jobs.binlog.types.spatial_vector import GEOMETRY, MARIADB_VECTOR, VECTOR
from spark_jobs.binlog.types.strings import BLOB, CHAR, VARCHAR
from spark_jobs.binlog.types.temporal import DATE, DATETIME, TIME, TIMESTAMP, YEAR
from spark_jobs.binlog.types.uuid_inet import INET4, INET6, UUID

STRING_CODE = 254
ENUM_CODE = 247
SET_CODE = 248
VECTOR_CODE = 242
GEOMETRY_CODE = 255

TYPES: dict[int, ColumnType] = {
    0: Refused("decimal before MySQL 5.0"),
    1: TINYINT,
    2: SMALLINT,
    3: INT,
    4: FLOAT,
    5: DOUBLE,
    7: OLD_TIMESTAMP,
    8: BIGINT,
    9: MEDIUMINT,
    10: DATE,
    11: OLD_TIME,
    12: OLD_DATETIME,
    13: YEAR,
    14: DATE,
    15: VARCHAR,
    16: BIT,
    17: TIMESTAMP,
    18: DATETIME,
    19: TIME,
    140: COMPRESSED_BLOB,
    141: COMPRESSED_VARCHAR,
    VECTOR_CODE: VECTOR,
    245: JSON,
    246: DECIMAL,
    ENUM_CODE: ENUM,
    SET_CODE: SET,
    252: BLOB,
    253: VARCHAR,
    STRING_CODE: CHAR,
    GEOMETRY_CODE: GEOMETRY,
}

EITHER_SIGN = "either sign"
"""Declaration of an integer of which nothing tells the sign, and which is to be read all the same."""
DECLARED: dict[tuple[str, int], ColumnType] = {
    ("uuid", STRING_CODE): UUID,
    ("inet4", STRING_CODE): INET4,
    ("inet6", STRING_CODE): INET6,
    ("vector", 15): MARIADB_VECTOR,
} | {(EITHER_SIGN, code): EitherSign(integer) for code, integer in TYPES.items() if isinstance(integer, Integer)}
"""Types that the log does not tell, by declared name and type code: MariaDB's that it holds as BINARY or VARBINARY."""

OLD_TWINS = {17: 7, 18: 12, 19: 11}
"""The codes of TIMESTAMP, DATETIME and TIME, and those of their formats before MySQL 5.6.4."""


def type_of(code: int, declared: str | None) -> ColumnType:
    """Type of a column, given its type code and what a definition declares it as (``uuid``, ``vector(3)``)."""
    name = (declared or "").partition("(")[0]
    return DECLARED.get((name, code)) or TYPES[code]


def real_code(code: int, wire: bytes) -> int:
    """The type that a column has: ENUM and SET come with the code of CHAR, their own is in the metadata."""
    return wire[0] if code == STRING_CODE and wire[0] in {ENUM_CODE, SET_CODE} else code
