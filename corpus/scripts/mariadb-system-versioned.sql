-- about: a system-versioned table beside another
-- servers: mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING;
CREATE TABLE u (id INT PRIMARY KEY, v INT);
INSERT INTO u VALUES (1, 1);
