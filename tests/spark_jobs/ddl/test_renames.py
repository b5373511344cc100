import pytest

from spark_jobs.binlog import TableName
from spark_jobs.ddl.renames import earlier_names, like_table
from spark_jobs.errors import Unsupported


@pytest.mark.parametrize(
    "text, expected",
    [
        ("RENAME TABLE a TO b", "b<a a<-"),
        ("RENAME TABLES a TO s.b, s2.c TO d;", "s.b<a a<- d<s2.c s2.c<-"),
        ("RENAME TABLE a TO tmp, b TO a, tmp TO b", "tmp<- a<b b<a"),
        ("RENAME TABLE a TO b, b TO a", "b<- a<a"),
        (
            "rename /* gh-ost */ table `db`.`t` to `db`.`_t_del`, `db`.`_t_gho` to `db`.`t`",
            "_t_del<t t<_t_gho _t_gho<-",
        ),
        ("RENAME TABLE IF EXISTS a WAIT 5 TO b, c NOWAIT TO `d e`", "b<a a<- d e<c c<-"),
        ("RENAME TABLE `a``b.c` TO `to`, `d,e` TO `as`", "to<a`b.c a`b.c<- as<d,e d,e<-"),
        ("RENAME TABLE t TO 2024_t", "2024_t<t t<-"),
        ("ALTER TABLE a RENAME TO b", "b<a a<-"),
        ("ALTER TABLE s.a RENAME b", "b<s.a s.a<-"),
        ("ALTER TABLE a ADD c INT, RENAME AS s.b, DROP d", "s.b<a a<-"),
        ("ALTER TABLE a RENAME = b", "b<a a<-"),
        ("ALTER TABLE a RENAME a", "a<a"),
        ("ALTER TABLE a RENAME COLUMN b TO c, RENAME INDEX d TO e, RENAME KEY f TO g", ""),
        ("ALTER TABLE a ADD `rename` INT, DROP PRIMARY KEY", ""),
        ("ALTER IGNORE TABLE a RENAME TO b", "b<a a<-"),
        ("RENAME USER a TO b", ""),
        ("DROP TABLE a", ""),
    ],
)
def test_which_table_has_which_name(text: str, expected: str) -> None:
    def text_of(name: TableName | None) -> str:
        return "-" if name is None else name.table if name.schema == "db" else str(name)

    assert " ".join(f"{text_of(new)}<{text_of(old)}" for new, old in earlier_names(text, "db").items()) == expected


@pytest.mark.parametrize("text", ["RENAME TABLE a", "RENAME TABLE a TO", "RENAME TABLE TO b"])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(Unsupported, match="names no table"):
        earlier_names(text, "db")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("create /* gh-ost */ table `db`.`_t_gho` like `db`.`t`", "db.t"),
        ("CREATE TABLE IF NOT EXISTS t (LIKE s.u)", "s.u"),
        ("CREATE TABLE t LIKE u", "db.u"),
        ("CREATE TABLE t (a INT, CHECK (a LIKE 'x'))", "None"),
        ("CREATE TABLE t AS SELECT * FROM u WHERE (a LIKE 'x')", "None"),
        ("TRUNCATE t", "None"),
    ],
)
def test_which_table_another_is_like(text: str, expected: str) -> None:
    assert str(like_table(text, "db")) == expected
