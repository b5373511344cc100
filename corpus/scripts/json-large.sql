-- about: JSON of more than 64 KiB, which has offsets of four bytes
-- servers: mysql-9.7
-- with: binlog_transaction_compression=ON

CREATE TABLE t (id INT PRIMARY KEY, j JSON);
INSERT INTO t SELECT 1, JSON_ARRAY(REPEAT('a', 9000), REPEAT('b', 9000), REPEAT('c', 9000), REPEAT('d', 9000), REPEAT('e', 9000), REPEAT('f', 9000), REPEAT('g', 9000), REPEAT('h', 9000));
