-- about: a table without a key, with equal rows
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (a INT, b VARCHAR(10));
INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
DELETE FROM t WHERE a = 1 LIMIT 1;
INSERT INTO t VALUES (2, 'y');
