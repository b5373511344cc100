-- about: zero dates and dates with zero parts, YEAR 0000, beside NULL
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

SET sql_mode = '';
CREATE TABLE t (id INT PRIMARY KEY, d DATE, dt DATETIME, ts TIMESTAMP NULL, y YEAR, dt6 DATETIME(6));
INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000', '0000-00-00 00:00:00'), (2, '2024-00-00', '2024-00-00 00:00:00', NULL, '0000', '2024-00-00 00:00:00.5'), (3, '2024-05-00', '2024-05-00 12:34:56', '2024-05-01 00:00:00', 2024, '0000-00-00 00:00:00.000001'), (4, NULL, NULL, NULL, NULL, NULL);
UPDATE t SET d = '2024-05-17', y = '0000' WHERE id = 3;
