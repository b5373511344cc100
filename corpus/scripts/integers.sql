-- about: signed integers: zero, both ends, -1, NULL
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, a TINYINT, b SMALLINT, c MEDIUMINT, d INT, e BIGINT);
INSERT INTO t VALUES (1, 0, 0, 0, 0, 0), (2, 127, 32767, 8388607, 2147483647, 9223372036854775807), (3, -128, -32768, -8388608, -2147483648, -9223372036854775808), (4, -1, -1, -1, -1, -1), (5, NULL, NULL, NULL, NULL, NULL);
UPDATE t SET a = 1, b = 256, c = 65536, d = 16777216, e = 4294967296 WHERE id = 1;
DELETE FROM t WHERE id = 3;
