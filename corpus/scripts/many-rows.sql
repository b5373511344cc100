-- about: a statement whose rows fill several events (binlog_row_event_max_size=256)
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4
-- options: binlog_row_event_max_size=256

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100));
INSERT INTO t VALUES (1, REPEAT('a', 90)), (2, REPEAT('b', 90)), (3, REPEAT('c', 90)), (4, REPEAT('d', 90)), (5, REPEAT('e', 90)), (6, REPEAT('f', 90)), (7, REPEAT('g', 90)), (8, REPEAT('h', 90)), (9, REPEAT('i', 90)), (10, REPEAT('j', 90));
UPDATE t SET v = CONCAT(v, id);
DELETE FROM t;
