-- about: JSON: scalars at the ends of their encodings, nested containers, the order of keys, escapes, strings with lengths of two bytes
-- servers: mysql-5.7 mysql-8.0 mysql-9.7

CREATE TABLE t (id INT PRIMARY KEY, j JSON);
INSERT INTO t VALUES (1, '{}'), (2, '[]'), (3, 'null'), (4, 'true'), (5, 'false'), (6, '0'), (7, '-1'), (8, '""'), (9, NULL);
INSERT INTO t VALUES (10, '32767'), (11, '32768'), (12, '-32769'), (13, '2147483647'), (14, '2147483648'), (15, '9223372036854775807'), (16, '9223372036854775808'), (17, '18446744073709551615'), (18, '-9223372036854775808');
INSERT INTO t VALUES (19, '0.1'), (20, '1e300'), (21, '1.0'), (22, '-0.5e-10'), (23, '3.4028235e38'), (24, '[1, 2.5, "x", null, true, {"a": []}]');
INSERT INTO t VALUES (25, '{"b": 1, "a": 2, "aa": 3, "": 4}'), (26, '{"k": {"k": {"k": [[[]]]}}}'), (27, '"a\\"b\\\\c\\n\\t"'), (28, '{"\\u00e9": "\\u4f60\\ud83d\\ude00"}');
INSERT INTO t VALUES (29, JSON_ARRAY(REPEAT('x', 127), REPEAT('y', 128))), (30, JSON_OBJECT(REPEAT('k', 200), 1));
UPDATE t SET j = JSON_SET(j, '$.a', 'new') WHERE id = 25;
DELETE FROM t WHERE id = 30;
