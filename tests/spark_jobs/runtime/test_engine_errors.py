from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from py4j.protocol import Py4JError

from spark_jobs.errors import DecodeError, LakeError, StratalogError, TableStopped
from spark_jobs.runtime.engine_errors import delta_rs_message, explained, from_task, translated

TASK = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "worker.py", line 1\n'
    "spark_jobs.errors.TableStopped: b.000001:4: shop.t: why\n\n\tat org.apache.spark"
)


@pytest.mark.parametrize(
    "text, kind, message",
    [
        (TASK, TableStopped, "b.000001:4: shop.t: why"),
        (
            "An error occurred while calling o1.save.\n: java.io.IOException: No space left on device\n\tat java.base",
            LakeError,
            "/l/t: cannot be written: no space left on device; free space and run again",
        ),
        (
            "Job aborted.\n\tat org\nCaused by: java.io.FileNotFoundException: /l/t/a.parquet (Permission denied)",
            LakeError,
            "/l/t: cannot be written: permission denied; let the user that runs this write there, or",
        ),
        (
            "An error occurred while calling o115.save. : org.apache.spark.X$Exception: [A_B] The value 'SECRET' is no",
            LakeError,
            "/l/t: [A_B] The value ? is no",
        ),
        (
            "X: Traceback (most recent call last):\n  File 'w'\nValueError: it is 'SECRET', no number\n\tat x",
            LakeError,
            "/l/t: a task failed: ValueError: it is ?, no number",
        ),
    ],
)
def test_a_text_of_sparks_becomes_one_message(text: str, kind: type[StratalogError], message: str) -> None:
    error = explained("/l/t", text)
    assert type(error) is kind
    assert str(error).startswith(message)


def test_a_folder_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = explained(f"{tmp_path}/file/lake/bronze/shop", "[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/x")
    assert str(error).startswith(
        f"{tmp_path}/file/lake/bronze/shop: cannot be written: {tmp_path}/file is not a directory; let the user"
    )


def test_what_is_raised_inside_is_translated_and_what_is_not_sparks_stays() -> None:
    with pytest.raises(LakeError, match=r"^/l: gone$"), translated("/l"):
        raise Py4JError("gone")
    with pytest.raises(KeyError), translated("/l"):
        raise KeyError("gone")
    assert from_task("java.lang.OutOfMemoryError: spark_jobs") is None


def test_a_gap_in_a_deltas_log_is_named(tmp_path: Path) -> None:
    for number in range(4):
        deltalake.write_deltalake(tmp_path, pa.table({"a": [number]}), mode="append")
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(Exception, match="gap") as raised:
        deltalake.DeltaTable(tmp_path)
    assert delta_rs_message("t", str(raised.value)) == "version 1 is missing from its _delta_log; restore the files"
    (tmp_path / "_delta_log" / f"{2:020}.json").unlink()
    with pytest.raises(Exception, match="gap") as raised:
        deltalake.DeltaTable(tmp_path)
    lacking = "versions 1 to 2 are missing from its _delta_log; restore the files"
    assert delta_rs_message("t", str(raised.value)) == lacking


def test_a_message_of_delta_rs_has_neither_colours_nor_a_trace() -> None:
    text = "Kernel error -> no\n   \x1b[31m↳\x1b[0m not enabled\n   0: <unknown>\n   1: clone3\n"
    assert delta_rs_message("t", text) == "Kernel error -> no -> not enabled"


@pytest.mark.parametrize(
    "text, raised",
    [
        ("spark_jobs.errors.DecodeError: shop: b.000001:4: bad\n\n\tat org.apache", "shop: b.000001:4: bad"),
        ("spark_jobs.errors.DecodeError: bad\n SQLSTATE: 38000\n\tat org.apache", "bad"),
        ("Traceback …\nspark_jobs.errors.DecodeError: two\nlines\n\n\tat x", "two\nlines"),
        ("spark_jobs.errors.DecodeError: first\n\nspark_jobs.errors.DecodeError: last", "last"),
    ],
)
def test_a_tasks_error_comes_back_as_what_it_was(text: str, raised: str) -> None:
    error = from_task(text)
    assert type(error) is DecodeError
    assert str(error) == raised
