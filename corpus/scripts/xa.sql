-- about: XA: prepared and committed, in one phase, prepared and rolled back
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));
XA START 'one';
INSERT INTO t VALUES (1, 'committed');
XA END 'one';
XA PREPARE 'one';
XA COMMIT 'one';
XA START 'two';
INSERT INTO t VALUES (2, 'in one phase');
XA END 'two';
XA COMMIT 'two' ONE PHASE;
XA START 'three';
INSERT INTO t VALUES (3, 'taken back');
XA END 'three';
XA PREPARE 'three';
XA ROLLBACK 'three';
INSERT INTO t VALUES (4, 'after');
