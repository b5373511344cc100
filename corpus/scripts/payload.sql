-- about: binlog_transaction_compression=ON: transactions in ZSTD, then a plain one
-- servers: mysql-9.7
-- with: binlog_transaction_compression=ON

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(300));
CREATE TABLE w (id INT PRIMARY KEY, j JSON);
INSERT INTO t VALUES (1, REPEAT('a', 300)), (2, 'b');
BEGIN;
INSERT INTO w VALUES (1, '{"a": [1, 2]}');
UPDATE t SET v = 'c' WHERE id = 1;
DELETE FROM t WHERE id = 2;
COMMIT;
SET SESSION binlog_transaction_compression = OFF;
INSERT INTO t VALUES (3, 'plain');
