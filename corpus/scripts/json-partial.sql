-- about: binlog_row_value_options=PARTIAL_JSON: an update logs what changed of a document; the full document is expected after it
-- servers: mysql-8.0 mysql-9.7
-- session: binlog_row_value_options=PARTIAL_JSON

CREATE TABLE t (id INT PRIMARY KEY, j JSON, k JSON, v INT);
INSERT INTO t VALUES (1, '{"a": 1, "b": [1, 2, 3], "c": {"d": "long enough text to be replaced in place"}}', '{"x": 1, "y": "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}', 0);
UPDATE t SET j = JSON_SET(j, '$.a', 2) WHERE id = 1;
UPDATE t SET j = JSON_REPLACE(j, '$.c.d', 'short'), v = 1 WHERE id = 1;
UPDATE t SET j = JSON_REMOVE(j, '$.b[1]') WHERE id = 1;
UPDATE t SET j = JSON_SET(j, '$.b[0]', 9), k = JSON_REMOVE(k, '$.x') WHERE id = 1;
UPDATE t SET v = 2 WHERE id = 1;
UPDATE t SET j = '{"whole": "new"}' WHERE id = 1;
DELETE FROM t WHERE id = 1;
