-- about: text in multi-byte character sets, letters beyond the BMP among them
-- servers: mysql-5.7 mysql-8.0 mysql-9.7

CREATE TABLE t (id INT PRIMARY KEY, utf8 VARCHAR(9) CHARACTER SET utf8, utf8mb4 VARCHAR(9) CHARACTER SET utf8mb4, ucs2 VARCHAR(9) CHARACTER SET ucs2, utf16 VARCHAR(9) CHARACTER SET utf16, utf16le VARCHAR(9) CHARACTER SET utf16le, utf32 VARCHAR(9) CHARACTER SET utf32, gbk VARCHAR(9) CHARACTER SET gbk, gb2312 VARCHAR(9) CHARACTER SET gb2312, gb18030 VARCHAR(9) CHARACTER SET gb18030, big5 VARCHAR(9) CHARACTER SET big5, sjis VARCHAR(9) CHARACTER SET sjis, cp932 VARCHAR(9) CHARACTER SET cp932, ujis VARCHAR(9) CHARACTER SET ujis, eucjpms VARCHAR(9) CHARACTER SET eucjpms, euckr VARCHAR(9) CHARACTER SET euckr);
INSERT INTO t VALUES (1, x'E282AC', x'F09F9880', x'20AC0041', x'D83DDE00', x'3DD800DE', x'0001F600', x'C4E3BAC3', x'C4E3BAC3', x'9439FC36', x'A741A66E', x'82A082A2', x'82A08740', x'A4A2A4A4', x'A4A2ADA1', x'B0A1B3AA');
INSERT INTO t VALUES (2, _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc', _latin1'abc');
INSERT INTO t VALUES (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
