-- about: an encrypted log: without its key nothing can be read, and a reader must say so
-- servers: mariadb-10.11
-- encrypted: yes
-- expects: refused: the log is encrypted

CREATE TABLE t (id INT PRIMARY KEY, v INT);
INSERT INTO t VALUES (1, 1);
