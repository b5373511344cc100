-- about: BINARY with zero bytes at its end, VARBINARY and BLOB of bytes that are no text
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, a BINARY(1), b BINARY(16), c BINARY(255), d VARBINARY(10), e VARBINARY(300), f TINYBLOB, g BLOB, h MEDIUMBLOB, i LONGBLOB);
INSERT INTO t VALUES (1, '', '', '', '', '', '', '', '', ''), (2, x'00', x'00FF00', x'FF', x'0000', x'00FF', x'00', x'FF', x'C328', x'80'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO t VALUES (4, x'FF', x'000102030405060708090A0B0C0D0E0F', REPEAT(x'AB', 255), x'FFFFFFFFFFFFFFFFFFFF', REPEAT(x'01', 300), REPEAT(x'02', 255), REPEAT(x'03', 256), REPEAT(x'04', 257), REPEAT(x'05', 258));
INSERT INTO t VALUES (5, 'a', 'abc', 'abc', 'abc ', x'616263FF', x'C3A9', x'E9', x'FFFE', x'0A');
UPDATE t SET b = x'61620000' WHERE id = 5;
