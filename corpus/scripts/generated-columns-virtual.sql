-- about: a virtual generated column, which MySQL logs
-- servers: mysql-5.7 mysql-8.0 mysql-9.7

CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT GENERATED ALWAYS AS (a + 1) VIRTUAL, b INT);
INSERT INTO t (id, a, b) VALUES (1, 10, 1), (2, NULL, 2);
UPDATE t SET a = 20 WHERE id = 1;
