-- about: text in single-byte character sets
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, latin1 VARCHAR(9) CHARACTER SET latin1, latin2 VARCHAR(9) CHARACTER SET latin2, cp1250 VARCHAR(9) CHARACTER SET cp1250, cp1251 VARCHAR(9) CHARACTER SET cp1251, koi8r VARCHAR(9) CHARACTER SET koi8r, greek VARCHAR(9) CHARACTER SET greek, hebrew VARCHAR(9) CHARACTER SET hebrew, latin5 VARCHAR(9) CHARACTER SET latin5, latin7 VARCHAR(9) CHARACTER SET latin7, cp850 VARCHAR(9) CHARACTER SET cp850, cp852 VARCHAR(9) CHARACTER SET cp852, cp866 VARCHAR(9) CHARACTER SET cp866, macroman VARCHAR(9) CHARACTER SET macroman, armscii8 VARCHAR(9) CHARACTER SET armscii8, tis620 VARCHAR(9) CHARACTER SET tis620);
INSERT INTO t VALUES (1, x'E9FC80', x'E9B1', x'E98A', x'CFF0', x'C1D2', x'E1F9', x'E0F9', x'FDFE', x'E0E8', x'8281', x'82A5', x'8FE0', x'8E9F', x'B2B3', x'A1A2');
INSERT INTO t VALUES (2, 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc', 'abc');
INSERT INTO t VALUES (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
