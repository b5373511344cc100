"""What is shown of servers' errors. Put here: texts as servers' own error files define them, filled with needles."""

import re
from functools import cache
from itertools import count

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.text import server_errors
from spark_jobs.text.server_errors import printable_answer
from tests.services.error_files import texts_of

SERVERS = ("mysql-5.7", "mysql-8.0", "mysql-9.7", "mariadb-10.11", "mariadb-11.4", "mariadb-11.8")
FORM = re.compile(r"%`?-?\.?[\d*]*(?:sT|sQ|iE|ld|lu|lld|llu|[sduTMf])")
NEEDLE, NUMBER = "NEEDLE", "777123"
WORD = "CREATE"
"""What fits every form that is shown."""
ALL_NAMES = {
    *(1020, 1022, 1032, 1036, 1044, 1045, 1048, 1049, 1050, 1051, 1054, 1059, 1060, 1061, 1063, 1067, 1069, 1070, 1071),
    *(1072, 1074, 1091, 1099, 1100, 1101, 1103, 1114, 1115, 1118, 1129, 1130, 1142, 1143, 1146, 1163, 1166, 1167, 1169),
    *(1170, 1176, 1193, 1194, 1195, 1203, 1214, 1215, 1226, 1227, 1236, 1238, 1253, 1264, 1265, 1273, 1280, 1286, 1290),
    *(1364, 1370, 1399, 1406, 1425, 1426, 1427, 1439, 1442, 1449, 1478, 1503, 1698, 1709, 1712, 1813, 1824, 1826, 1832),
    *(1833, 1834, 1845, 1846, 1906, 1932, 3105, 3118, 3152, 3730, 3734, 4025, 4161),
}
"""Numbers of errors whose forms are all names of tables, columns, keys, users, types, or sizes."""
SOME_NAMES = {
    1030: {0},
    1062: {1},
    1231: {0},
    1267: {0, 1, 2, 3},
    1291: {0, 2},
    1292: {0},
    1366: {0, 2, 3, 4, 5},
    1367: {0},
    1411: {0, 2},
    1525: {0},
    1557: {0, 2},
    1586: {1},
    1690: {0},
    3140: {1, 2},
}
"""Forms that are names, in their order, where others of the text may be values."""
NOT_DEFINED = {3819, 8002, 8022, 8028, 9001, 9007}
"""Listed numbers of TiDB, proxies and versions that none of the servers has."""
FILLED_ELSEWHERE = {1064, 1451, 1452, 4031}
"""Listed numbers whose text a server puts together, or whose number another server uses for something else."""
SYNTAX = (
    "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right"
)
FOREIGN_KEY = "Cannot add or update a child row: a foreign key constraint fails (`d`.`t`, CONSTRAINT `c`"
LIVE = [
    (1062, "Duplicate entry 'Ann' for key 't.name'", "Duplicate entry ? for key 't.name'"),
    (1062, "Duplicate entry 'x for key NEEDLE-A' for key 'u'", "Duplicate entry ? for key 'u'"),
    (1062, "Duplicate entry 'x' for key 'NEEDLE' for key 'u'", "Duplicate entry ? for key 'u'"),
    (1062, "Duplicate entry 'O'NEEDLE' for key 'u'", "Duplicate entry ? for key 'u'"),
    (1062, "Duplicate entry 'http://NEEDLE/a' for key 'u'", "Duplicate entry ? for key 'u'"),
    (1062, "NEEDLE", "error 1062 (HY000)"),
    (1526, "Table has no partition for value 777123", "Table has no partition for value ?"),
    (1367, "Illegal double '1e999NEEDLE' value found during parsing", "Illegal double ? value found during parsing"),
    (1644, "NEEDLE", "error 1644 (HY000)"),
    (1064, f"{SYNTAX} syntax to use near 'NEEDLE' at line 1", f"{SYNTAX} syntax to use near ? at line 1"),
    (
        1366,
        "Incorrect string value: '\\xFFNEEDLE' for column `d`.`t`.`c` at row 2",
        "Incorrect string value: ? for column `d`.`t`.`c` at row 2",
    ),
    (1452, f"{FOREIGN_KEY} FOREIGN KEY (`NEEDLE`)", f"{FOREIGN_KEY} ?"),
    (3819, "Check constraint 'c' is violated.", "Check constraint 'c' is violated"),
    (9007, "Write conflict, txnStartTS=1, key={tableID=1, handle=777123}", "Write conflict, ?"),
    (9999, "NEEDLE", "error 9999 (HY000)"),
]


@pytest.mark.parametrize("number, text, expected", LIVE)
def test_a_listed_text_is_shown_without_what_may_be_a_value(number: int, text: str, expected: str) -> None:
    assert printable_answer(number, "HY000", text) == expected
    assert printable_answer(number, None, NEEDLE) == f"error {number}"


def test_what_a_trigger_says_under_another_number_is_not_shown() -> None:
    assert printable_answer(1048, "45000", "Column 'NEEDLE' cannot be null") == "error 1048 (45000)"


@cache
def texts(server: str) -> dict[int, str]:
    """The server's texts, with one space where there are several, as messages have them."""
    try:
        return {number: re.sub(r"\s+", " ", text) for number, text in texts_of(server).items()}
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.mysql
@pytest.mark.parametrize("server", SERVERS)
def test_shapes_are_those_of_the_servers(server: str) -> None:
    listed = {number: text for number, text in texts(server).items() if number in server_errors._shapes()}
    assert len(listed) > 130
    different = {
        number
        for number, text in listed.items()
        if printable_answer(number, "HY000", filled(text)).startswith("error ")
    }
    assert different <= FILLED_ELSEWHERE


@pytest.mark.mysql
def test_each_number_is_one_of_a_server() -> None:
    defined = {number for server in ("mysql-5.7", "mysql-8.0", "mariadb-11.4") for number in texts(server)}
    assert set(server_errors._shapes()) - defined == NOT_DEFINED


@pytest.mark.mysql
@pytest.mark.parametrize("server", SERVERS)
def test_no_text_of_a_server_shows_more_than_names(server: str) -> None:
    count_of_values = 0
    for number, text in texts(server).items():
        for at, form in enumerate(FORM.findall(text)):
            if number in ALL_NAMES or at in SOME_NAMES.get(number, ()):
                continue
            for value in hostile(text, at, NUMBER if form[-1] in "du" else NEEDLE):
                output = printable_answer(number, "HY000", filled(text, {at: value}))
                assert NEEDLE not in output, (number, text, value)
                assert NUMBER not in output, (number, text, value)
                count_of_values += 1
    assert count_of_values > 1000


def hostile(text: str, at: int, needle: str) -> list[str]:
    """Values of one form that look like a path, end the quotes that they stand in, or go on as the text does."""
    form = [*FORM.finditer(text)][at]
    following = FORM.sub(lambda _: needle, text[form.end() :])
    endings = [f"x{following}", f"x{following.rstrip(chr(39) + '.')}", f"{following}{following}"]
    imitated = FORM.sub(lambda _: needle, text)
    return [needle, f"O'{needle}", f"/{needle}/a", f"http://{needle}", f"' for key '{needle}", *endings, imitated]


def filled(text: str, values: dict[int, str] | None = None) -> str:
    """The text with values in the places of its forms, and plain words or digits in all others."""
    positions = count()

    def value(form: re.Match[str]) -> str:
        plain = "7" if form[0][-1] in "du" else WORD
        if form[0][-1] in "ME":
            plain = '28 "No space left on device"'
        filling = (values or {}).get(next(positions), plain)
        return f"`{filling}`" if "`" in form[0] or form[0].endswith("Q") else filling

    return FORM.sub(value, text)
