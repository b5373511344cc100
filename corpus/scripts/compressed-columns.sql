-- about: MariaDB's COMPRESSED columns
-- servers: mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200) COMPRESSED, w TEXT COMPRESSED, b BLOB COMPRESSED);
INSERT INTO t VALUES (1, '', '', ''), (2, 'short', 'short', x'00FF'), (3, REPEAT('v', 200), REPEAT('w', 300), REPEAT(x'00', 300)), (4, NULL, NULL, NULL);
UPDATE t SET w = REPEAT('z', 150) WHERE id = 1;
