import pytest

from docs.reference.messages import assigned, messages
from spark_jobs.errors import ConfigError, DeliveryError, JvmEnded, LakeError, SourceError, StratalogError, TableStopped
from spark_jobs.text.codes import MessageCode, catalogue, code_of, codes_in
from spark_jobs.text.remedies import advised

BEFORE = [MessageCode("SL-1001", "LakeError", ""), MessageCode("SL-1002", "LakeError", "the table is gone for good")]


def entry(code: str) -> MessageCode:
    return next(entry for entry in catalogue() if entry.code == code)


def test_codes_and_messages_are_unique() -> None:
    codes = catalogue()
    assert len({code.code for code in codes}) == len(codes)
    present = [(code.cls, code.text) for code in codes if code.cls]
    assert len(set(present)) == len(present)


def test_each_message_of_the_code_has_its_code() -> None:
    wrong = []
    for name, texts in messages().items():
        for text in texts:
            listed = entry(code_of(getattr(__import__("spark_jobs.errors").errors, name), text))
            if (listed.cls, listed.text) != (name, text) and listed.size < len(text.replace("…", "")):
                wrong.append((name, text, listed.text))
    assert wrong == []


@pytest.mark.parametrize(
    "error, text",
    [
        (
            SourceError("shop: /x holds no binlog files (named like mysql-bin.000001)"),
            "holds no binlog files (named like",
        ),
        (TableStopped("shop: shop.t: /x holds no binlog files (named like mysql-bin.000001)"), "holds no binlog files"),
    ],
)
def test_the_code_does_not_depend_on_names_or_on_who_passes_it_on(error: StratalogError, text: str) -> None:
    assert entry(code_of(error)).text.startswith(text)


def test_a_short_text_is_its_own_class_s_alone() -> None:
    (short,) = (code for code in catalogue() if code.text == "cannot be")
    assert entry(code_of(SourceError("shop: h:1 cannot be reached: Connection refused"))).text.endswith("refused")
    assert [code_of(cls("x cannot be y")) == short.code for cls in (LakeError, SourceError)] == [True, False]


@pytest.mark.parametrize("cls", [SourceError, DeliveryError, JvmEnded])
def test_a_message_that_is_not_listed_has_the_code_of_its_class(cls: type[StratalogError]) -> None:
    assert entry(code_of(cls("zyx"))) == MessageCode(code_of(cls("zyx")), cls.__name__, "")


def test_a_reported_message_has_its_code_once_before_it() -> None:
    text = advised(SourceError("shop: /x holds no binlog files (named like mysql-bin.000001)"))
    assert codes_in(text) == [code_of(SourceError(text))]
    assert text.startswith(f"[{codes_in(text)[0]}] shop: /x holds")
    assert advised(SourceError(text)) == text


def test_each_problem_of_a_configuration_has_its_code() -> None:
    lines = advised(ConfigError({"sources": "missing", "lake": "zyx"})).splitlines()
    assert [len(codes_in(line)) for line in lines] == [1, 1]


def test_codes_stay_when_messages_come_go_and_change() -> None:
    reworded = assigned(BEFORE, {"LakeError": ["another", "the table is gone for ever"]})
    assert MessageCode("SL-1002", "LakeError", "the table is gone for ever") in reworded
    (new,) = [code for code in reworded if code.text == "another"]
    assert new.code > "SL-1002"
    retired = assigned(BEFORE, {})
    assert MessageCode("SL-1002", "", "") in retired
    reassigned = assigned(retired, {"LakeError": ["the table is gone for good"]})
    assert "SL-1002" not in [code.code for code in reassigned if code.text]
