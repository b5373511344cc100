-- about: CHAR, VARCHAR and TEXT: empty, NULL, one and two bytes of length, blanks at the end, letters beyond the BMP, zero bytes
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, a CHAR(1), b CHAR(60), c CHAR(255), d VARCHAR(1), e VARCHAR(255), f VARCHAR(256), g VARCHAR(1000), h TINYTEXT, i TEXT, j MEDIUMTEXT, k LONGTEXT) CHARACTER SET utf8mb4;
INSERT INTO t VALUES (1, '', '', '', '', '', '', '', '', '', '', ''), (2, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO t VALUES (4, x'C3A9', x'F09F9880', x'E4BDA0E5A5BD', x'F09F9880', x'7A616C67CC8F6F', x'0041', x'5C', x'0A0D', x'2722', x'01', x'7F');
INSERT INTO t VALUES (5, 'z', REPEAT('b', 60), REPEAT('c', 255), 'd', REPEAT('e', 255), REPEAT('f', 256), REPEAT('g', 300), REPEAT('h', 255), REPEAT('i', 260), REPEAT('j', 257), REPEAT('k', 256));
INSERT INTO t VALUES (6, ' ', ' x ', ' x', ' ', 'x ', 'x  ', 'x ', 'x ', 'x ', 'x ', 'x ');
UPDATE t SET i = REPEAT('x', 70) WHERE id = 2;
DELETE FROM t WHERE id = 6;
