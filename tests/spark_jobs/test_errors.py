import pickle
import re

import pytest

from spark_jobs import errors
from spark_jobs.errors import ConfigError, LostRace, SourceError, StratalogError, TableStopped, about

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StratalogError)),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_a_task_raises_arrives_with_its_text(kind: type[StratalogError]) -> None:
    back = pickle.loads(pickle.dumps(kind("mysql-bin.000001:4: no")))  # noqa: S301 - our own bytes
    assert type(back) is kind
    assert str(back) == "mysql-bin.000001:4: no"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_drawing_shows_every_class(kind: type[StratalogError]) -> None:
    (drawing,) = re.findall(r"(?s)StratalogError\n.*?\n\n", errors.__doc__ or "")
    assert re.search(rf"\b{kind.__name__}\b", drawing)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_wrong_configuration_ends_in_2(kind: type[StratalogError]) -> None:
    assert kind.exit_status == (2 if kind is ConfigError else 1)


def test_configuration_errors_list_every_problem_under_its_key() -> None:
    error = ConfigError({"routes[1].to": "missing", "lake": "missing"})
    assert str(error) == "routes[1].to: missing\nlake: missing"
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert back.problems == {"routes[1].to": "missing", "lake": "missing"}
    assert ConfigError("no such file").problems == {"": "no such file"}
    assert str(ConfigError("no such file")) == "no such file"


@pytest.mark.parametrize(
    "raised, arrives",
    [
        (SourceError("the log is gone"), "shop: the log is gone"),
        (SourceError("shop: the log is gone"), "shop: the log is gone"),
        (LostRace("lost"), "shop: lost"),
        (TableStopped("no key"), "shop: no key"),
    ],
)
def test_about_puts_the_name_in_front_once(raised: StratalogError, arrives: str) -> None:
    with pytest.raises(type(raised)) as error, about("shop"):
        raise raised
    assert type(error.value) is type(raised)
    assert str(error.value) == arrives


@pytest.mark.parametrize("raised", [ConfigError({"lake": "missing"}), ValueError("ours")])
def test_about_leaves_other_errors_alone(raised: Exception) -> None:
    with pytest.raises(type(raised)) as error, about("shop"):
        raise raised
    assert error.value is raised


def test_about_does_not_take_a_word_of_the_message_for_the_name() -> None:
    with pytest.raises(SourceError) as error, about("shop"):
        raise SourceError("the workshop's directory is empty")
    assert str(error.value) == "shop: the workshop's directory is empty"
