-- about: a composite key in another order than the columns, keys that change, ON DUPLICATE KEY UPDATE
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (a INT, b VARCHAR(10) CHARACTER SET utf8mb4, v INT, PRIMARY KEY (b, a));
INSERT INTO t VALUES (1, 'x', 1), (1, 'y', 2);
UPDATE t SET a = 5 WHERE b = 'x';
UPDATE t SET b = 'z', v = 9 WHERE b = 'y';
INSERT INTO t VALUES (5, 'x', 3) ON DUPLICATE KEY UPDATE v = 33;
DELETE FROM t WHERE b = 'z';
