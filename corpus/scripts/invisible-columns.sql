-- about: an invisible column
-- servers: mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, a INT INVISIBLE, b INT);
INSERT INTO t (id, b) VALUES (1, 1);
INSERT INTO t (id, a, b) VALUES (2, 7, 2);
