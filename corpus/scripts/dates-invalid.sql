-- about: dates that no calendar has, which ALLOW_INVALID_DATES lets in
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

SET sql_mode = 'ALLOW_INVALID_DATES';
CREATE TABLE t (id INT PRIMARY KEY, d DATE, dt DATETIME(3));
INSERT INTO t VALUES (1, '2023-02-31', '2023-02-31 01:02:03.004'), (2, '2023-04-31', '2023-11-31 23:59:59.999');
