"""Deliveries. Put here: the fixture of a copy that is delivered. Not here: the copy itself (delivered.py)."""

from collections.abc import Iterator

import pytest

from tests.delivered import Copy
from tests.fix_pipeline import Shop


@pytest.fixture
def copy(shop: Shop) -> Iterator[Copy]:
    copy = Copy(shop)
    shop.execute(
        "DROP DATABASE IF EXISTS stratalog",
        "CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'",
        "GRANT ALL ON stratalog.* TO writer@'%'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP ON `{copy.schema}`.* TO writer@'%'",
    )
    yield copy
    shop.execute(f"DROP DATABASE IF EXISTS `{copy.schema}`", "DROP DATABASE IF EXISTS stratalog")
