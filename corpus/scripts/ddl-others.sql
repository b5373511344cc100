-- about: statements that change no columns, between rows
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY k (v));
INSERT INTO t VALUES (1, 1);
CREATE INDEX kk ON t (v, id);
CREATE VIEW w AS SELECT * FROM t;
CREATE PROCEDURE p() INSERT INTO t VALUES (2, 2);
CALL p();
DROP INDEX kk ON t;
DROP VIEW w;
DROP PROCEDURE p;
ANALYZE TABLE t;
INSERT INTO t VALUES (3, 3);
