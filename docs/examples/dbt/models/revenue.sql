-- What came in, by day and currency.
select cast(placed as date) as day, currency, sum(total) as revenue, count(*) as orders
from {{ source('shop', 'orders') }}
where status in ('paid', 'sent')
group by 1, 2
