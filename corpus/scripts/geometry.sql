-- about: GEOMETRY of all kinds, with a reference system, NULL
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, g GEOMETRY, p POINT);
INSERT INTO t VALUES (1, ST_GeomFromText('POINT(1.5 -2.5)'), ST_GeomFromText('POINT(0 0)')), (2, ST_GeomFromText('LINESTRING(0 0,1 1,2 -1)'), NULL), (3, ST_GeomFromText('POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))'), ST_GeomFromText('POINT(1e300 -1e-300)'));
INSERT INTO t VALUES (4, ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))'), NULL), (5, ST_GeomFromText('MULTIPOINT(1 2,3 4)'), NULL), (6, NULL, NULL);
INSERT INTO t VALUES (7, ST_GeomFromText('POINT(1 2)', 4326), NULL);
UPDATE t SET p = ST_GeomFromText('POINT(9 9)') WHERE id = 1;
