-- about: binlog_row_image=NOBLOB: a TEXT or BLOB that is not set is absent. Which columns are logged is the manual's rule
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4
-- session: binlog_row_image=NOBLOB

CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, c BLOB);
INSERT INTO t VALUES (1, 1, 'b', 'c'), (2, 2, NULL, NULL);
-- images: before=id,a after=id,a
UPDATE t SET a = 5 WHERE id = 1;
-- images: before=id,a after=id,a,b
UPDATE t SET b = 'new' WHERE id = 1;
-- images: before=id,a
DELETE FROM t WHERE id = 1;
