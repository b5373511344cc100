-- about: binlog_row_image=FULL_NODUP of MariaDB 11.4: all columns before, and after those that change
-- servers: mariadb-11.4
-- session: binlog_row_image=FULL_NODUP

CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT);
INSERT INTO t VALUES (1, 1, 'b');
-- images: before=id,a,b after=a
UPDATE t SET a = 5 WHERE id = 1;
DELETE FROM t WHERE id = 1;
