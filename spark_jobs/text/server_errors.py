"""Texts of a server's error in messages: those whose shape is listed, with ? for values, and of all others the number.

A server's text may repeat a value of a row, quoted or not, and a trigger may say anything. So a text is shown only if
its number is listed and it has the listed shape, and of it only what the shape knows as a name.

Put here: the shapes. Not here: what to do about an error (delivery/target.py, source/connection.py), texts of other
programs (disclosure.py).
"""

import re
from functools import cache

_SIGNALLED = "45000"
"""SQLSTATE of what a trigger or a routine says, under a number that it may choose."""

_LISTED = """
1020 Record has changed since last read in table '%s'
1020 Record has changed since last read in table '%s'; try restarting transaction
1021 Disk full ?
1022 Can't write; duplicate key in table '%s'
1030 Got error %d from storage engine
1030 Got error %d ? from storage engine ?
1030 Got error %d ? from storage engine
1032 Can't find record in '%s'
1034 Incorrect key file for table ?; try to repair it
1034 Index for table ? is corrupt; try to repair it
1036 Table '%s' is read only
1040 Too many connections
1041 Out of memory
1041 Out of memory; ?
1043 Bad handshake
1044 Access denied for user '%s'@'%s' to database '%s'
1045 Access denied for user '%s'@'%s' (using password: %w)
1046 No database selected
1047 Unknown command
1048 Column '%s' cannot be null
1049 Unknown database '%s'
1050 Table '%s' already exists
1051 Unknown table '%s'
1053 Server shutdown in progress
1054 Unknown column '%s' in '%s'
1059 Identifier name '%s' is too long
1060 Duplicate column name '%s'
1061 Duplicate key name '%s'
1062 Duplicate entry ? for key '%s'
1062 Duplicate entry ? for key %d
1063 Incorrect column specifier for column '%s'
1064 You have an error in your SQL syntax; check the manual that corresponds to your %w server version for the right \
syntax to use near ? at line %d
1067 Invalid default value for '%s'
1068 Multiple primary key defined
1069 Too many keys specified; max %d keys allowed
1070 Too many key parts specified; max %d parts allowed
1071 Specified key was too long; max key length is %d bytes
1072 Key column '%s' doesn't exist in table
1074 Column length too big for column '%s' (max = %d); use BLOB or TEXT instead
1075 Incorrect table definition; there can be only one auto column and it must be defined as a key
1089 Incorrect prefix key; ?
1091 Can't DROP '%s'; check that column/key exists
1091 Can't DROP %w `%s`; check that it exists
1099 Table '%s' was locked with a READ lock and can't be updated
1100 Table '%s' was not locked with LOCK TABLES
1101 BLOB, TEXT, GEOMETRY or JSON column '%s' can't have a default value
1103 Incorrect table name '%s'
1113 A table must have at least 1 column
1114 The table '%s' is full
1115 Unknown character set: '%s'
1117 Too many columns
1118 Row size too large. The maximum row size for the used table type, not counting BLOBs, is %d. ?
1129 Host '%s' is blocked because of many connection errors; unblock with '%s'
1130 Host '%s' is not allowed to connect to this %w server
1138 Invalid use of NULL value
1142 %w command denied to user '%s'@'%s' for table '%s'
1142 %w command denied to user '%s'@'%s' for table `%s`.`%s`
1143 %w command denied to user '%s'@'%s' for column '%s' in table '%s'
1146 Table '%s' doesn't exist
1153 Got a packet bigger than 'max_allowed_packet' bytes
1158 Got an error reading communication packets
1159 Got timeout reading communication packets
1160 Got an error writing communication packets
1161 Got timeout writing communication packets
1163 Storage engine %w doesn't support BLOB/TEXT columns
1163 The used table type doesn't support BLOB/TEXT columns
1166 Incorrect column name '%s'
1167 The used storage engine can't index column '%s'
1167 The storage engine %w can't index column `%s`
1169 Can't write, because of unique constraint, to table '%s'
1170 BLOB/TEXT column '%s' used in key specification without a key length
1171 All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead
1176 Key '%s' doesn't exist in table '%s'
1192 Can't execute the given command because you have active locked tables or an active transaction
1193 Unknown system variable '%s'
1194 Table '%s' is marked as crashed and should be repaired
1195 Table '%s' is marked as crashed and last (automatic?) repair failed
1203 User %s already has more than 'max_user_connections' active connections
1205 Lock wait timeout exceeded; try restarting transaction
1206 The total number of locks exceeds the lock table size
1213 Deadlock found when trying to get lock; try restarting transaction
1214 The used table type doesn't support FULLTEXT indexes
1214 The storage engine %w doesn't support FULLTEXT indexes
1215 Cannot add foreign key constraint
1215 Cannot add foreign key constraint for `%s`
1216 Cannot add or update a child row: a foreign key constraint fails
1217 Cannot delete or update a parent row: a foreign key constraint fails
1226 User '%s' has exceeded the '%s' resource (current value: %d)
1227 Access denied; you need (at least one of) the %s privilege(s) for this operation
1231 Variable '%s' can't be set to the value of ?
1236 %t
1238 Variable '%s' is a %s variable
1251 Client does not support authentication protocol requested by server; consider upgrading %w client
1253 COLLATION '%s' is not valid for CHARACTER SET '%s'
1264 Out of range value for column '%s' at row %d
1265 Data truncated for column '%s' at row %d
1267 Illegal mix of collations (%s) and (%s) for operation ?
1273 Unknown collation: '%s'
1280 Incorrect index name '%s'
1286 Unknown storage engine '%s'
1290 The %w server is running with the %s option so it cannot execute this statement
1291 Column '%s' has duplicated value ? in %w
1292 Truncated incorrect %w value: ?
1292 Incorrect %w value: ? for column '%s' at row %d
1292 Incorrect %w value: ? for column `%s`.`%s`.`%s` at row %d
1292 Incorrect %w value: ?
1298 Unknown or incorrect time zone: ?
1317 Query execution was interrupted
1364 Field '%s' doesn't have a default value
1365 Division by 0
1366 Incorrect %w value: ? for column '%s' at row %d
1366 Incorrect %w value: ? for column `%s`.`%s`.`%s` at row %d
1367 Illegal %w ? value found during parsing
1370 %w command denied to user '%s'@'%s' for routine '%s'
1399 XAER_RMFAIL: The command cannot be executed when global transaction is in the %w state
1406 Data too long for column '%s' at row %d
1411 Incorrect %w value: ? for function %w
1412 Table definition has changed, please retry transaction
1416 Cannot get geometry object from data you send to the GEOMETRY field
1425 Too big scale %d specified for column '%s'. Maximum is %d
1425 Too big scale specified for '%s'. Maximum is %d
1426 Too-big precision %d specified for '%s'. Maximum is %d
1426 Too big precision specified for '%s'. Maximum is %d
1427 For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '%s')
1439 Display width out of range for column '%s' (max = %d)
1439 Display width out of range for '%s' (max = %d)
1442 Can't update table '%s' in stored function/trigger because it is already used by statement which invoked this \
stored function/trigger
1449 The user specified as a definer ('%s'@'%s') does not exist
1451 Cannot delete or update a parent row: a foreign key constraint fails (`%s`.`%s`, CONSTRAINT `%s` ?
1451 Cannot delete or update a parent row: a foreign key constraint fails ?
1451 Cannot delete or update a parent row: a foreign key constraint fails
1452 Cannot add or update a child row: a foreign key constraint fails (`%s`.`%s`, CONSTRAINT `%s` ?
1452 Cannot add or update a child row: a foreign key constraint fails ?
1452 Cannot add or update a child row: a foreign key constraint fails
1478 Table storage engine '%s' does not support the create option '%s'
1493 VALUES LESS THAN value must be strictly increasing for each partition
1503 A %w must include all columns in the table's partitioning function
1503 A %w must include all columns in the table's partitioning function (prefixed columns are not considered)
1525 Incorrect %w value: ?
1526 Table has no partition for value ?
1557 Upholding foreign key constraints for table '%s', entry ?, key %d would lead to a duplicate entry
1586 Duplicate entry ? for key '%s'
1615 Prepared statement needs to be re-prepared
1690 %w value is out of range in ?
1698 Access denied for user '%s'@'%s'
1701 Cannot truncate a table referenced in a foreign key constraint (`%s`.`%s`, CONSTRAINT `%s` ?
1701 Cannot truncate a table referenced in a foreign key constraint ?
1709 Index column size too large. The maximum column size is %d bytes
1712 Index %s is corrupted
1713 Undo log record is too big
1748 Found a row not matching the given partition set
1792 Cannot execute statement in a READ ONLY transaction
1813 Tablespace '%s' exists
1813 Tablespace for table '%s' exists. Please DISCARD the tablespace before IMPORT
1820 You must reset your password using ALTER USER statement before executing this statement
1820 You must SET PASSWORD before executing this statement
1824 Failed to open the referenced table '%s'
1826 Duplicate foreign key constraint name '%s'
1826 Duplicate %w constraint name '%s'
1832 Cannot change column '%s': used in a foreign key constraint '%s'
1833 Cannot change column '%s': used in a foreign key constraint '%s' of table '%s'
1834 Cannot delete rows from table which is parent in a foreign key constraint '%s' of table '%s'
1836 Running in read-only mode
1845 %s is not supported for this operation. Try %s
1846 %s is not supported. Reason: %s. Try %s
1862 Your password has expired. To log in you must change it using a client that supports expired passwords
1863 Found a row in wrong partition ?
1874 InnoDB is in read only mode
1878 Temporary file write failure
1906 The value specified for generated column '%s' in table '%s' has been ignored
1927 Connection was killed
1932 Table '%s' doesn't exist in engine
1969 Query execution was interrupted (max_statement_time exceeded)
3024 Query execution was interrupted, maximum statement execution time exceeded
3105 The value specified for generated column '%s' in table '%s' is not allowed
3118 Access denied for user '%s'@'%s'. Account is locked
3140 Invalid JSON text: ? at position %d in value for column '%s'
3152 JSON column '%s' cannot be used in key specification
3152 JSON column '%s' supports indexing only via generated columns on a specified JSON path
3157 The JSON document exceeds the maximum depth
3159 Connections using insecure transport are prohibited while --require_secure_transport=ON
3169 Session was killed
3572 Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set
3730 Cannot drop table '%s' referenced by a foreign key constraint '%s' on table '%s'
3734 Failed to add the foreign key constraint. Missing column '%s' for constraint '%s' in the referenced table '%s'
3819 Check constraint '%s' is violated
4025 CONSTRAINT `%s` failed for `%s`.`%s`
4031 The client was disconnected by the server because of inactivity. ?
4151 Access denied, this account is locked
4161 Unknown data type: '%s'
8002 ? can not retry select for update statement
8022 Error: KV error safe to retry ?
8028 Information schema is changed ?
9001 Max connect timeout reached while reaching hostgroup %d after %dms
9007 Write conflict, ?
"""
"""A number and a shape a line, as servers' own error files have them, without a stop at the end.

'%s': a name; %w: a word of the server's, such as a type or a command; %d: digits; %t: any text; ?: what may be a value.
"""
_NAMES = {"%s": r"[^'\"`\\]*", "%w": r"[A-Za-z_]+(?:,? [A-Za-z_]+)*", "%d": r"\d+", "%t": r".*"}
_FORM = re.compile(r"(%[swdt]|(?<![a-z])\?)")
"""Splits a shape into literal texts and forms, one after the other."""


def printable_answer(number: int, state: str | None, text: str) -> str:
    """Text of a server's error in a message; no value of a row.

    Args:
        number: The server's number of the error.
        state: Its SQLSTATE, if the server has given one.
        text: What the server says.
    """
    if state != _SIGNALLED:
        for parts, pattern in _shapes().get(number, ()):
            match = pattern.fullmatch(text.rstrip("."))
            if match:
                # Names in their order take the places of their forms; what may be a value stays a question mark.
                names = iter(match.groups())
                return "".join(next(names) if part in _NAMES else part for part in parts)
    return f"error {number}{f' ({state})' if state else ''}"


@cache
def _shapes() -> dict[int, list[tuple[list[str], re.Pattern[str]]]]:
    """Parts and pattern of each shape, by the error's number; compiled at the first error, not at each start."""
    shapes: dict[int, list[tuple[list[str], re.Pattern[str]]]] = {}
    for line in _LISTED.strip().splitlines():
        number, _, shape = line.partition(" ")
        parts = _FORM.split(shape)
        shapes.setdefault(int(number), []).append((parts, re.compile("".join(map(_pattern, parts)), re.DOTALL)))
    return shapes


def _pattern(part: str) -> str:
    """A part's pattern; greedy, so that what comes after a value is what comes last in the text."""
    return f"({_NAMES[part]})" if part in _NAMES else ".*" if part == "?" else re.escape(part)
