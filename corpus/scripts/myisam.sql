-- about: a table without transactions, whose events end with COMMIT as a statement
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=MyISAM;
INSERT INTO t VALUES (1, 'a'), (2, 'b');
UPDATE t SET v = 'c' WHERE id = 1;
DELETE FROM t WHERE id = 2;
