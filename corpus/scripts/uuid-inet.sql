-- about: MariaDB's UUID, INET6 and INET4, which the log has as bytes
-- servers: mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, u UUID, i INET6, k INET4);
INSERT INTO t VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '2001:db8::ff00:42:8329', '192.168.0.1'), (2, '00000000-0000-0000-0000-000000000000', '::', '0.0.0.0'), (3, NULL, NULL, NULL), (4, 'ffffffff-ffff-ffff-ffff-ffffffffffff', '::ffff:1.2.3.4', '255.255.255.255'), (5, '123e4567-e89b-72d3-a456-000000000000', 'ff00::', '1.0.0.0');
UPDATE t SET u = 'deadbeef-0000-1000-8000-00000000beef' WHERE id = 1;
