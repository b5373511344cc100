-- about: log_bin_compress=ON of MariaDB: compressed rows and statements beside plain ones
-- servers: mariadb-10.11 mariadb-11.4
-- with: log_bin_compress=ON log_bin_compress_min_len=10

CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(600), w TEXT);
INSERT INTO t VALUES (1, REPEAT('a', 600), REPEAT('b', 300)), (2, 'small', NULL);
INSERT INTO t VALUES (3, 'small', 'small');
UPDATE t SET v = REPEAT('c', 500) WHERE id = 1;
DELETE FROM t WHERE id = 1;
CREATE TABLE u (id INT PRIMARY KEY, a_column_with_a_very_long_name_to_make_the_statement_long INT, another_column_with_a_very_long_name_to_make_the_statement_long INT, a_third_column_with_a_very_long_name_to_make_it_long INT);
INSERT INTO u VALUES (1, 2, 3, 4);
