-- about: compressed transactions with parts of documents in them
-- servers: mysql-9.7
-- session: binlog_transaction_compression=ON binlog_row_value_options=PARTIAL_JSON

CREATE TABLE t (id INT PRIMARY KEY, j JSON, v VARCHAR(300));
INSERT INTO t VALUES (1, '{"a": 1, "pad": "pppppppppppppppppppppppppppppppppppppp"}', REPEAT('v', 300));
UPDATE t SET j = JSON_SET(j, '$.a', 2) WHERE id = 1;
UPDATE t SET v = 'w' WHERE id = 1;
