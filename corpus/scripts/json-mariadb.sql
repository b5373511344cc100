-- about: JSON of MariaDB, which is text and kept as it was written
-- servers: mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, j JSON);
INSERT INTO t VALUES (1, '{"b":1,  "a":2}'), (2, '[]'), (3, NULL), (4, '18446744073709551616');
