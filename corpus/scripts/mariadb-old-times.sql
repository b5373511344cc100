-- about: mysql56_temporal_format=OFF: TIME, DATETIME and TIMESTAMP in the format from before MySQL 5.6
-- servers: mariadb-10.11 mariadb-11.4
-- with: mysql56_temporal_format=OFF

CREATE TABLE t (id INT PRIMARY KEY, a TIME, b DATETIME, c TIMESTAMP NULL);
INSERT INTO t VALUES (1, '10:11:12', '2024-02-29 01:02:03', '2024-02-29 01:02:03'), (2, '-10:11:12', '1000-01-01 00:00:00', NULL), (3, '838:59:59', '9999-12-31 23:59:59', '2038-01-19 03:14:07');
