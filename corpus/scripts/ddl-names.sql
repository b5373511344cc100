-- about: names with backticks, dots, blanks and reserved words; ANSI_QUOTES
-- servers: mysql-5.7 mysql-8.0 mysql-9.7 mariadb-10.11 mariadb-11.4

CREATE TABLE `t``x.y` (`id` INT PRIMARY KEY, `select` INT, `a``b` INT, `c d` INT, `é` INT);
INSERT INTO `t``x.y` VALUES (1, 2, 3, 4, 5);
SET sql_mode = 'ANSI_QUOTES';
ALTER TABLE "t`x.y" ADD COLUMN "n" INT;
INSERT INTO "t`x.y" VALUES (2, 3, 4, 5, 6, 7);
