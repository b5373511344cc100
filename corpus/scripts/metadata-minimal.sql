-- about: binlog_row_metadata=MINIMAL: the log has no names and no labels; the CREATE TABLE before has them
-- servers: mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4
-- with: binlog_row_metadata=MINIMAL

CREATE TABLE t (id INT PRIMARY KEY, u INT UNSIGNED, v VARCHAR(20) CHARACTER SET latin1, e ENUM('a', 'b'), s SET('x', 'y'), b BINARY(3), d DECIMAL(5,2));
INSERT INTO t VALUES (1, 4294967295, x'E9', 'b', 'x,y', x'6100', 1.50), (2, 1, 'v', NULL, '', NULL, NULL);
UPDATE t SET u = 3000000000 WHERE id = 2;
DELETE FROM t WHERE id = 1;
