import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.expressions.tree import MOST_LEVELS, names_in, tree_of


@pytest.mark.parametrize(
    "text, refused",
    [
        ("n = 1; DROP TABLE t", "must be one expression"),
        ("n = 1 OR", "'n = 1 OR' is no expression of MySQL: "),
        ("", "'' must be one expression"),
        ("n /*! + 1 */ = 2", "has a comment; write it without"),
        ("n = 1 -- 2", "has a comment; write it without"),
        ("n = 1 # 2", "has a comment; write it without"),
        ("n =!u", "`=!` is one word to MySQL; put a space between"),
        ("!!n", "`!!` is one word to MySQL; put a space between"),
        ("n <=!u", "`<=!` is one word to MySQL; put a space between"),
        (" OR ".join(["n"] * (MOST_LEVELS + 1)), f"nests more than {MOST_LEVELS} levels deep"),
        ("(" * 5000 + "n" + ")" * 5000, f"nests more than {MOST_LEVELS} levels deep"),
    ],
)
def test_refused(text: str, refused: str) -> None:
    with pytest.raises(ConfigError) as error:
        tree_of(text)
    assert refused in str(error.value)


@pytest.mark.parametrize("text", ["n <> '!'", "'--' = name", "n = 5--3", "! !n", "n != 1", "name = '/*'"])
def test_what_only_looks_like_a_comment_or_one_word_is_read(text: str) -> None:
    assert names_in(tree_of(text)) <= {"n", "name"}
