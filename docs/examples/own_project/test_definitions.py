"""The report by itself: rows in, rows out. ``spark`` is a fixture that gives the tests' Spark session."""

from datetime import date
from decimal import Decimal

from pyspark.sql import SparkSession

from .definitions import revenue

ORDERS = """
SELECT * FROM VALUES
  (TIMESTAMP_NTZ '2026-11-02 09:15:00', 'paid', 49.90, 'EUR'),
  (TIMESTAMP_NTZ '2026-11-02 23:59:59', 'sent', 12.00, 'EUR'),
  (TIMESTAMP_NTZ '2026-11-02 11:40:00', 'paid', 80.00, 'SEK'),
  (TIMESTAMP_NTZ '2026-11-03 08:05:00', 'new', 7.35, 'EUR')
AS orders (placed, status, total, currency)
"""


def test_revenue_is_what_was_paid_by_day_and_currency(spark: SparkSession) -> None:
    assert sorted(tuple(row) for row in revenue(spark.sql(ORDERS)).collect()) == [
        (date(2026, 11, 2), "EUR", Decimal("61.90"), 2),
        (date(2026, 11, 2), "SEK", Decimal("80.00"), 1),
    ]
