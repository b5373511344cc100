-- about: binlog_rows_query_log_events: the statement's text before its rows
-- servers: mysql-5.7 mysql-8.0 mysql-9.7

SET SESSION binlog_rows_query_log_events = ON;
CREATE TABLE t (id INT PRIMARY KEY, v INT);
INSERT INTO t VALUES (1, 1);
UPDATE t SET v = 2 WHERE id = 1;
