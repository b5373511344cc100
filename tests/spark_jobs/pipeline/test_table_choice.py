import pytest

from spark_jobs.binlog import TableName
from spark_jobs.pipeline.table_choice import wrong_tables

TABLES = [TableName("shop", f"t{number:02}") for number in range(22)]


@pytest.mark.parametrize(
    "texts, problems",
    [
        (["shop.t00", "shop.*", "*.t2?"], {}),
        ([], {}),
        (["shop.t00", "t00"], {"tables[1]": "is not a table pattern"}),
        (["shop.t0"], {"tables[0]": "and 2 more; did you mean shop.t"}),
        (["a.b"], {"tables[0]": "a.b is no table of s that a run has seen: shop.t00, shop.t01, "}),
    ],
)
def test_what_names_no_table_is_listed_by_its_place(texts: list[str], problems: dict[str, str]) -> None:
    listed = wrong_tables("s", texts, TABLES)
    assert listed.keys() == problems.keys()
    assert [key for key, text in problems.items() if text not in listed[key]] == [], listed


def test_long_lists_are_cut() -> None:
    assert wrong_tables("s", ["a.b"], TABLES)["tables[0]"].endswith("shop.t19 and 2 more")
    assert wrong_tables("s", ["a.b"], [])["tables[0]"].endswith("that a run has seen: none")
