-- about: columns that come, go, move and change their type between rows
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(10));
INSERT INTO t VALUES (1, 1, 'one');
ALTER TABLE t ADD COLUMN c INT FIRST;
INSERT INTO t (id, a, b, c) VALUES (2, 2, 'two', 22);
ALTER TABLE t DROP COLUMN a, MODIFY b VARCHAR(300), CHANGE c cc BIGINT UNSIGNED AFTER b;
INSERT INTO t (id, b, cc) VALUES (3, 'three', 18446744073709551615);
UPDATE t SET b = 'eins' WHERE id = 1;
ALTER TABLE t MODIFY id INT FIRST;
DELETE FROM t WHERE id = 2;
