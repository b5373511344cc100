drop database if exists small;
create database small;
create table small.t (id int unsigned primary key, y year, u smallint unsigned, s smallint, name varchar(10) charset latin1, note text charset utf8mb4, b varbinary(9), e enum('a','b') charset latin1);
insert into small.t values (1,2000,65535,-1,'é','☃',0xff,'b'),(4294967295,0,40000,-2,null,null,null,null);
