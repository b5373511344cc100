-- What was sent to a MySQL 8.0.12 server, with binlog_row_metadata = FULL, to make the binlog files beside this one.
-- FLUSH BINARY LOGS ends a file.

CREATE DATABASE shop;
USE shop;
CREATE TABLE customers (
  id INT UNSIGNED NOT NULL PRIMARY KEY,
  name VARCHAR(80) NOT NULL,
  country CHAR(2) NOT NULL
);
CREATE TABLE orders (
  id INT UNSIGNED NOT NULL PRIMARY KEY,
  customer INT UNSIGNED NOT NULL,
  placed DATETIME NOT NULL,
  status ENUM('new', 'paid', 'sent') NOT NULL DEFAULT 'new',
  total DECIMAL(10,2) NOT NULL
);
INSERT INTO customers VALUES (1, 'Åsa', 'SE'), (2, 'Bruno', 'PT'), (3, 'Chloé', 'FR');
INSERT INTO orders VALUES
  (1, 1, '2026-11-02 09:15:00', 'new', 49.90),
  (2, 2, '2026-11-02 11:40:00', 'new', 12.00),
  (3, 1, '2026-11-03 08:05:00', 'new', 7.35);
UPDATE orders SET status = 'paid' WHERE id IN (1, 2);
FLUSH BINARY LOGS;

INSERT INTO orders VALUES (4, 3, '2026-11-04 16:20:00', 'new', 120.00);
UPDATE orders SET status = 'sent' WHERE id = 1;
DELETE FROM orders WHERE id = 3;
UPDATE customers SET country = 'DE' WHERE id = 2;
FLUSH BINARY LOGS;

ALTER TABLE orders ADD COLUMN currency CHAR(3) NOT NULL DEFAULT 'EUR';
INSERT INTO orders VALUES (5, 2, '2026-11-05 10:00:00', 'paid', 80.00, 'SEK');
UPDATE orders SET status = 'paid' WHERE id = 4;
FLUSH BINARY LOGS;
