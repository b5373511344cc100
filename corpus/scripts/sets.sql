-- about: SET: empty, the last of 9 and of 64 members, all 64
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE t (id INT PRIMARY KEY, a SET('x', 'y', 'z'), b SET('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'), c SET('s1', 's2', 's3', 's4', 's5', 's6', 's7', 's8', 's9', 's10', 's11', 's12', 's13', 's14', 's15', 's16', 's17', 's18', 's19', 's20', 's21', 's22', 's23', 's24', 's25', 's26', 's27', 's28', 's29', 's30', 's31', 's32', 's33', 's34', 's35', 's36', 's37', 's38', 's39', 's40', 's41', 's42', 's43', 's44', 's45', 's46', 's47', 's48', 's49', 's50', 's51', 's52', 's53', 's54', 's55', 's56', 's57', 's58', 's59', 's60', 's61', 's62', 's63', 's64'), d SET('é', 'ü') CHARACTER SET latin1);
INSERT INTO t VALUES (1, '', '', '', ''), (2, 'x', 'i', 's64', 1), (3, 'x,z', 'a,i', 's1,s33,s64', 3), (4, 7, 511, 18446744073709551615, 2), (5, NULL, NULL, NULL, NULL);
UPDATE t SET c = 's1,s64' WHERE id = 1;
