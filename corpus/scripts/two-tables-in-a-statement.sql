-- about: a statement that changes two tables, between two TABLE_MAPs
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE a (id INT PRIMARY KEY, v INT);
CREATE TABLE b (id INT PRIMARY KEY, v INT);
INSERT INTO a VALUES (1, 1);
INSERT INTO b VALUES (1, 10);
-- order: a b
UPDATE a JOIN b ON a.id = b.id SET a.v = 2, b.v = 20;
