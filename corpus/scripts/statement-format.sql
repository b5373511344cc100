-- about: a statement that is logged as its text, with its rows nowhere: what reads rows must say so
-- servers: mysql-5.7 mysql-8.0 mariadb-11.4
-- expects: refused: rows of a statement are not in the log

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO t VALUES (1, 'row');
SET SESSION binlog_format = STATEMENT;
-- unlogged: t
INSERT INTO t VALUES (2, 'statement');
SET SESSION binlog_format = ROW;
INSERT INTO t VALUES (3, 'row');
