-- about: FLOAT and DOUBLE: the largest, the smallest, the subnormal, those without an exact text
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, f FLOAT, d DOUBLE, g FLOAT(7,3), u DOUBLE UNSIGNED);
INSERT INTO t VALUES (1, 0, 0, 0, 0), (2, 0.1, 0.1, 0.1, 0.1), (3, -0.1, -0.1, -1234.567, 1e300), (4, 3.40282e38, 1.7976931348623157e308, 9999.999, 1.7976931348623157e308), (5, 1.17549e-38, 2.2250738585072014e-308, 0.001, 5e-324), (6, 16777216, 9007199254740993, -0.001, 123456789.12345679), (7, NULL, NULL, NULL, NULL);
UPDATE t SET f = 1e-45, d = 4.9e-324 WHERE id = 1;
