-- about: transactions, a ROLLBACK, savepoints
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB;
BEGIN;
INSERT INTO t VALUES (1, 'a');
INSERT INTO t VALUES (2, 'b');
UPDATE t SET v = 'c' WHERE id = 1;
COMMIT;
BEGIN;
INSERT INTO t VALUES (3, 'lost');
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (4, 'kept');
SAVEPOINT s;
INSERT INTO t VALUES (5, 'lost');
ROLLBACK TO SAVEPOINT s;
INSERT INTO t VALUES (6, 'kept');
RELEASE SAVEPOINT s;
COMMIT;
DELETE FROM t WHERE id = 2;
