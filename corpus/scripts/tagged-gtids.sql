-- about: GTIDs with tags, and without
-- servers: mysql-9.7
-- alone: yes

CREATE TABLE t (id INT PRIMARY KEY, v INT);
SET gtid_next = 'AUTOMATIC:tag';
INSERT INTO t VALUES (1, 1);
SET gtid_next = 'AUTOMATIC';
INSERT INTO t VALUES (2, 2);
