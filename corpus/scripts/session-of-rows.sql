-- about: values that a statement would give anew: the row is what counts
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

SET SESSION foreign_key_checks = 0, unique_checks = 0;
CREATE TABLE t (id INT PRIMARY KEY, v TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6), u VARCHAR(36)) AUTO_INCREMENT = 5;
INSERT INTO t (id, u) VALUES (1, UUID());
INSERT INTO t (id, u) SELECT 2, RAND(3);
