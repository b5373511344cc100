-- about: binlog_row_image=MINIMAL: an absent column is not NULL. Which columns are logged is the manual's rule: the key before, and after what the statement sets
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4
-- session: binlog_row_image=MINIMAL

CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), c TEXT, d INT, e INT, f INT, g INT, h INT, i INT);
-- images: after=id,a,b
INSERT INTO t (id, a, b) VALUES (1, 10, 'x'), (2, 20, 'y');
-- images: before=id after=b
UPDATE t SET b = 'z' WHERE id = 1;
-- images: before=id after=c,i
UPDATE t SET c = 'text', i = 9 WHERE id = 2;
-- images: before=id after=a
UPDATE t SET a = NULL WHERE id = 2;
-- images: before=id after=id
UPDATE t SET id = 3 WHERE id = 1;
-- images: before=id
DELETE FROM t WHERE id = 2;
