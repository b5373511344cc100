-- about: ROLLBACK of a transaction that wrote to a table without transactions: its rows stay, those of InnoDB go
-- servers: mariadb-10.11 mariadb-11.4

CREATE TABLE i (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB;
CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=MyISAM;
INSERT INTO i VALUES (1, 'before');
BEGIN;
INSERT INTO i VALUES (2, 'taken back');
INSERT INTO m VALUES (1, 'stays');
ROLLBACK;
INSERT INTO i VALUES (3, 'after');
