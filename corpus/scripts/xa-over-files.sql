-- about: XA: prepared in one file, committed in the next
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40));
XA START 'far';
INSERT INTO t VALUES (1, 'prepared in the first file');
XA END 'far';
XA PREPARE 'far';
FLUSH BINARY LOGS;
XA COMMIT 'far';
INSERT INTO t VALUES (2, 'after');
