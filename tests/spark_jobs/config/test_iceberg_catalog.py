"""The key ``iceberg_catalog:``."""

from typing import Any

import pytest
from pydantic import ValidationError

from spark_jobs.config.iceberg_catalog import IcebergCatalog, variable_text


def test_a_catalog_has_defaults() -> None:
    catalog = IcebergCatalog()
    assert (catalog.name, catalog.namespace_of("shop")) == ("default", "shop")
    assert IcebergCatalog(namespace="lake.{schema}").namespace_of("shop") == "lake.shop"


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"name": "My lake"}, "is made of small letters, digits and -"),
        ({"properties": {"type": "nessie"}}, "type: nessie is none of rest, glue, hive"),
        ({"properties": {"token": "x"}}, "token is for the environment: PYICEBERG_CATALOG__NAME__TOKEN"),
        ({"properties": {"adls.sas-token": "x"}}, "PYICEBERG_CATALOG__NAME__ADLS__SAS_TOKEN"),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        IcebergCatalog(**settings)


def test_an_address_of_a_login_is_no_secret() -> None:
    properties = {"oauth2-server-uri": "https://login", "type": "rest"}
    assert IcebergCatalog(properties=properties).properties == properties


def test_a_property_is_a_variable() -> None:
    assert variable_text("s3.access-key-id") == "S3__ACCESS_KEY_ID"
