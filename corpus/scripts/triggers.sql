-- about: rows that a trigger writes, in the statement that fires it
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, v INT);
CREATE TABLE u (id INT PRIMARY KEY AUTO_INCREMENT, parent INT, v INT);
CREATE TRIGGER after_t AFTER INSERT ON t FOR EACH ROW INSERT INTO u (parent, v) VALUES (NEW.id, NEW.v * 2);
-- order: t u
INSERT INTO t VALUES (1, 10);
-- order: t u
INSERT INTO t VALUES (2, 20);
DELETE FROM t WHERE id = 1;
