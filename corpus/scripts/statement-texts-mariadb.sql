-- about: binlog_annotate_row_events: the statement's text before its rows
-- servers: mariadb-10.11 mariadb-11.4

SET SESSION binlog_annotate_row_events = ON;
CREATE TABLE t (id INT PRIMARY KEY, v INT);
INSERT INTO t VALUES (1, 1);
UPDATE t SET v = 2 WHERE id = 1;
