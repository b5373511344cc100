-- about: foreign keys: what the server does to child rows is not in the log, which has the parents' rows alone
-- servers: mysql-5.7 mysql-8.0 mariadb-11.4

CREATE TABLE p (id INT PRIMARY KEY, v INT);
CREATE TABLE ch (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO p VALUES (1, 1), (2, 2);
INSERT INTO ch VALUES (10, 1), (20, 2);
-- unlogged: ch
UPDATE p SET id = 3 WHERE id = 1;
-- unlogged: ch
DELETE FROM p WHERE id = 2;
