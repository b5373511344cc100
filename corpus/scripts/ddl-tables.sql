-- about: RENAME, a swap of names, TRUNCATE, DROP, a name that means another table later
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE a (id INT PRIMARY KEY, v INT);
INSERT INTO a VALUES (1, 1);
RENAME TABLE a TO b;
INSERT INTO b VALUES (2, 2);
CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(10), w INT);
INSERT INTO a VALUES (1, 'x', 7);
RENAME TABLE a TO tmp, b TO a, tmp TO b;
INSERT INTO a VALUES (3, 3);
INSERT INTO b VALUES (2, 'y', 8);
-- unlogged: a
TRUNCATE TABLE a;
INSERT INTO a VALUES (4, 4);
-- unlogged: b
DROP TABLE b;
CREATE TABLE b LIKE a;
INSERT INTO b VALUES (5, 5);
-- unlogged: a b
DROP TABLE a, b;
