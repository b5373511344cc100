-- about: DATE and YEAR, both ends, leap days, days that the Julian calendar has and the Gregorian has not
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, d DATE, y YEAR);
SET sql_mode = 'ALLOW_INVALID_DATES';
INSERT INTO t VALUES (1, '1000-01-01', 1901), (2, '9999-12-31', 2155), (3, '1969-12-31', 1970), (4, '1970-01-01', 2000), (5, '2024-02-29', 2024), (6, NULL, NULL), (7, '0001-01-01', 1999), (8, '1582-10-10', 1902);
UPDATE t SET d = '1900-02-28', y = 2069 WHERE id = 5;
