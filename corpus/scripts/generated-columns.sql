-- about: a stored generated column between others
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11

CREATE TABLE t (id INT PRIMARY KEY, a INT, s INT GENERATED ALWAYS AS (a * 2) STORED, b INT);
INSERT INTO t (id, a, b) VALUES (1, 10, 1), (2, NULL, 2);
UPDATE t SET a = 20 WHERE id = 1;
DELETE FROM t WHERE id = 2;
