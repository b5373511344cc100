-- about: TIME: both ends, below zero with and without a fraction, more than a day
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, a TIME, b TIME(1), c TIME(3), d TIME(6));
INSERT INTO t VALUES (1, '00:00:00', '00:00:00', '00:00:00', '00:00:00'), (2, '838:59:59', '838:59:59', '838:59:58.999', '838:59:58.999999'), (3, '-838:59:59', '-838:59:59', '-838:59:58.999', '-838:59:58.999999'), (4, '-00:00:01', '-00:00:00.1', '-00:00:00.001', '-00:00:00.000001'), (5, '-00:20:38', '-10:11:12.5', '-10:11:12.500', '-00:00:01.000001'), (6, NULL, NULL, NULL, NULL), (7, '23:59:59', '24:00:00.9', '100:00:00.001', '00:00:00.999999');
UPDATE t SET d = '-01:00:00.100000' WHERE id = 1;
