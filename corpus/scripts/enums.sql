-- about: ENUM: labels with commas, quotes and letters of other sets, an empty label, the invalid value 0, NULL
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', 'b,c', 'd''e', '', 'x y') NOT NULL, f ENUM('one', 'two'), g ENUM('é', 'ü') CHARACTER SET latin1, h ENUM('é', '你') CHARACTER SET utf8mb4);
SET sql_mode = '';
INSERT INTO t VALUES (1, 'a', 'one', x'E9', x'C3A9'), (2, 'b,c', 'two', x'FC', x'E4BDA0'), (3, 'd''e', NULL, NULL, NULL), (4, 'x y', 'one', 1, 2), (5, 1, 'invalid', 1, 1), (6, 4, 2, 2, 2);
UPDATE t SET f = 'two' WHERE id = 1;
