-- about: CREATE TABLE ... SELECT, whose rows are logged behind it
-- servers: mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE s (id INT PRIMARY KEY, v VARCHAR(10));
INSERT INTO s VALUES (1, 'a'), (2, 'b');
CREATE TABLE d (PRIMARY KEY (id)) AS SELECT * FROM s;
INSERT INTO d VALUES (3, 'c');
