-- about: the character set of a table, changed between rows
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20), w TEXT) CHARACTER SET latin1;
CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(20), w TEXT) CHARACTER SET gbk;
INSERT INTO a VALUES (1, x'E9', x'DF80');
INSERT INTO b VALUES (1, x'C4E3', x'BAC3');
ALTER TABLE a CONVERT TO CHARACTER SET utf8mb4;
INSERT INTO a VALUES (2, x'C3A9', x'F09F9880');
UPDATE a SET w = 'plain' WHERE id = 1;
