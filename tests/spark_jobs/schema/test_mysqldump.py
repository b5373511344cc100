from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import Slicer, TableName, definitions_of, same_layout
from spark_jobs.binlog.types.charsets import charset_of
from spark_jobs.ddl.definitions import HistoryAnswer, completed_by_history
from spark_jobs.errors import SourceError, TableStopped
from spark_jobs.log.position import Position
from spark_jobs.schema.mysqldump import read_dump
from spark_jobs.schema.tracker import listed_with_key

WHOLE = """\
/*M!999999\\- enable the sandbox mode */
-- MySQL dump 10.13  Distrib 8.0.12, for Linux (x86_64)
--
-- Host: 127.0.0.1    Database: first
-- ------------------------------------------------------
/*!40101 SET NAMES utf8mb4 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,
3e11fa47-71ca-11e1-9e33-c80aa9429563:1-7';
-- CHANGE MASTER TO MASTER_LOG_FILE='mysql-bin.000042', MASTER_LOG_POS=1337;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET latin1 */
  /*!80016 DEFAULT ENCRYPTION='N' */;
USE `shop`;
DROP TABLE IF EXISTS `t;1`;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `t;1` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT, -- the key; of the table
  `note` varchar(20) CHARACTER SET utf8mb4 DEFAULT 'it''s; /* x */ \\';' COMMENT 'a;b -- c',
  `e` enum('a;','b''') COLLATE latin1_bin DEFAULT NULL, /* a comment; with ' in it */
  `hidden` int /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1
/*!50100 PARTITION BY HASH (`id`)
PARTITIONS 2 */;
LOCK TABLES `t;1` WRITE;
/*!40000 ALTER TABLE `t;1` DISABLE KEYS */;
INSERT INTO `t;1` VALUES (1,'CREATE TABLE x (a INT);','a;',2);
UNLOCK TABLES;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'ANSI_QUOTES' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `tr` BEFORE INSERT ON `t;1` FOR EACH ROW BEGIN
  SET NEW.note = 'x'; -- it's;
  DROP TABLE `t;1`; END */;;
CREATE DEFINER=`root`@`localhost` PROCEDURE `p`()
BEGIN SELECT 1; CREATE TABLE made_by_p (a INT); END ;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50001 CREATE TABLE `v` ( `a` tinyint NOT NULL ) ENGINE=MyISAM */;
/*!50001 DROP TABLE IF EXISTS `v`*/;
/*!50001 CREATE VIEW `w` AS SELECT 1 AS `a`*/;
/*!50001 CREATE ALGORITHM=UNDEFINED */
/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */
/*!50001 VIEW `v` AS select 1 AS `a` */;
# a line; of the other kind
CREATE TABLE other.`t` (a MADE_UP(3));
CREATE TABLE bare (`c` char(3), PRIMARY KEY (c));
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
-- Dump completed on 2026-11-22  8:00:00
"""


def test_what_a_dump_makes_and_where_it_was_taken() -> None:
    dump = read_dump(WHOLE.encode())
    assert {str(definition.name): listed_with_key(definition) for definition in dump.definitions} == {
        "shop.bare": "(c char(3) not null), key: c",
        "shop.t;1": ("(id int unsigned not null, note varchar(20), e enum('a;','b'''), hidden int invisible), key: id"),
    }
    (unread,) = dump.unread
    assert (unread.line, unread.name) == (
        WHOLE[: WHOLE.index("CREATE TABLE other")].count("\n") + 1,
        TableName("other", "t"),
    )
    assert [str(at) for at in dump.positions] == ["mysql-bin.000042:1337"]
    assert [str(gtid) for gtid in dump.gtids] == [
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,3e11fa47-71ca-11e1-9e33-c80aa9429563:1-7"
    ]
    bare, table = dump.definitions
    assert [charset_of(column.charset or 0) for column in (*table.columns[1:3], *bare.columns)] == [
        "utf8mb4",
        "latin1",
        "latin1",
    ]
    assert table.columns[1].default == r"'it\'s; /* x */ \';'"


ANSI = """\
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO,ANSI' */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ "shop" /*!40100 DEFAULT CHARACTER SET latin1 */;
USE "shop";
CREATE TABLE "t" ("id" int NOT NULL, "v" varchar(3), PRIMARY KEY ("id"));
"""


@pytest.mark.parametrize("text", [ANSI, ANSI.partition("\n")[2]], ids=["with its mode", "compact"])
def test_a_dump_in_ansi_quotes_leaves_character_sets_out(text: str) -> None:
    """SHOW CREATE TABLE prints no table's character set then: the database's default is not known to be it."""
    (definition,) = read_dump(text.encode()).definitions
    assert listed_with_key(definition) == "(id int not null, v varchar(3)), key: id"
    assert (definition.name, definition.columns[1].charset) == (TableName("shop", "t"), None)


@pytest.mark.parametrize(
    "text, positions",
    [
        ("CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='b.000001', SOURCE_LOG_POS=4;", ["b.000001:4"]),
        ("-- CHANGE MASTER 'one' TO MASTER_LOG_FILE='b.000001', MASTER_LOG_POS=4;", ["b.000001:4"]),
        ("-- CHANGE MASTER TO MASTER_USE_GTID=slave_pos;\n-- SET GLOBAL gtid_slave_pos='0-1-5';", ["0-1-5"]),
        (
            "/* SET @@GLOBAL.GTID_PURGED='+3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5';*/",
            ["3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"],
        ),
        ("SET @@GLOBAL.GTID_PURGED='';", []),
        (
            "-- CHANGE MASTER TO MASTER_LOG_FILE='b.1', MASTER_LOG_POS=4;\n"  # noqa: ISC004 - two lines of one dump
            "-- CHANGE MASTER TO MASTER_LOG_FILE='a.1', MASTER_LOG_POS=9;",
            ["b.1:4", "a.1:9"],
        ),
    ],
)
def test_the_places_that_dumps_name(text: str, positions: list[str]) -> None:
    dump = read_dump(text.encode())
    assert [str(position) for position in (*dump.positions, *dump.gtids)] == positions


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "USE d;\nALTER TABLE t ADD PRIMARY KEY (a);\nCREATE UNIQUE INDEX i ON t (b);",
            "(a int not null, b int), key: a",
        ),
        ("USE d;\nCREATE TABLE u LIKE t;\nDROP TABLE t;", "(a int, b int), key: none"),
        ("USE d;\nCREATE TABLE IF NOT EXISTS t (x INT);", "(a int, b int), key: none"),
        ("USE d;\nCREATE TABLE t (x INT);", "(x int), key: none"),
    ],
)
def test_statements_behind_a_table_change_it(text: str, expected: str) -> None:
    (definition,) = read_dump(f"CREATE TABLE d.t (a INT, b INT);\n{text}".encode()).definitions
    assert listed_with_key(definition) == expected


@pytest.mark.parametrize(
    "raw, reason",
    [
        (b"USE d;\nCREATE TABLE t (a INT", r"line 2: the statement has no end; the dump is cut"),
        (b"USE d;\n\nCREATE TABLE t (\na INT DEFAULT 'x);\n", r"line 3: what begins with ' in line 4 has no end"),
        (b"-- MySQL dump 10.13\nUSE d;\n", r"it does not end with the line '-- Dump completed'"),
        (b"USE d;\nCREATE TABLE caf\xe9 (a INT);", r"line 2: it is no text in UTF-8"),
        (b"\nCREATE TABLE t (a INT);", r"line 2: .*CREATE TABLE t names no database.*--databases"),
        (b"CREATE TABLE;", r"line 1: the statement that begins there cannot be read: it names no table"),
        (b"\n-- CHANGE MASTER TO MASTER_LOG_FILE='x', MASTER_LOG_POS=4;\n", r"line 2: .*'x:4' is not a position"),
    ],
)
def test_what_is_no_dump_says_where(raw: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        read_dump(raw)


def test_a_table_that_cannot_be_read_is_named_with_its_line() -> None:
    dump = read_dump(b"USE d;\nCREATE TABLE t (a INT);\nCREATE TABLE u (\na MADE_UP(3));\n")
    assert [str(definition.name) for definition in dump.definitions] == ["d.t"]
    (unread,) = dump.unread
    assert (unread.line, str(unread.name)) == (3, "d.u")
    assert "made_up" in unread.reason.casefold()


def slices(log: bytes) -> list[dict[str, Any]]:
    slicer = Slicer("log.000001", 0, None)
    return [row for cut in [*slicer.feed(log), *slicer.finish()] for row in cut.to_pylist()]


def statements(log: bytes) -> str:
    """The statements of a log that make tables, as a dump has them."""
    creations = [log_slice for log_slice in slices(log) if "create table" in (log_slice["statement"] or "").casefold()]
    return "".join(f"USE `{log_slice['database'] or 'none'}`;\n{log_slice['statement']};\n" for log_slice in creations)


@pytest.mark.parametrize(
    "name, tables", [("mysql-5.7-MySQL-before-metadata.000001", 3), ("mysql-8.0-minimal-metadata.000001", 1)]
)
def test_rows_that_servers_logged_without_names_are_of_the_dump_s_tables(name: str, tables: int) -> None:
    log = Path("tests/recorded", name).read_bytes()
    dumped = {definition.name: definition for definition in read_dump(statements(log).encode()).definitions}
    maps = (
        definitions_of("log.000001", log_slice["start"], log_slice["context"], log_slice["payload"])
        for log_slice in slices(log)
    )
    logged = {table.name: table for map_ in maps for table in map_}
    assert len(logged) == tables
    for table in logged.values():
        assert not table.has_names()
        completed = completed_by_history(table, HistoryAnswer(Position("log.000001", 4), dumped[table.name]))
        assert completed.column_names() == dumped[table.name].column_names()
        assert same_layout(completed, table)
        narrower = replace(dumped[table.name], columns=dumped[table.name].columns[1:])
        with pytest.raises(TableStopped, match="does not fit"):
            completed_by_history(table, HistoryAnswer(Position("log.000001", 4), narrower))
