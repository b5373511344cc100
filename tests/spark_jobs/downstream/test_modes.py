import pytest

from spark_jobs.config.modes import Mode
from spark_jobs.downstream.modes import CURRENT_ROWS, MODE_COLUMNS, require_supported
from spark_jobs.errors import TableStopped
from spark_jobs.silver.table import Columns

KEYED = Columns({"id": "INT", "v": "INT"}, ("id",))


@pytest.mark.parametrize(
    "columns, mode, reason",
    [
        (Columns({"id": "INT", "_GTID": "INT"}, ("id",)), Mode.APPEND, "its column _GTID has the name of one that"),
        (Columns({"id": "INT", "_deleted_at": "INT"}, ("id",)), Mode.SOFT_DELETE, "its column _deleted_at has the"),
    ],
)
def test_what_a_mode_cannot_be_is_one_message(columns: Columns, mode: Mode, reason: str) -> None:
    with pytest.raises(TableStopped) as info:
        require_supported(columns, mode)
    assert reason in str(info.value)
    require_supported(columns, Mode.MIRROR)


@pytest.mark.parametrize("mode", Mode)
def test_every_mode_has_its_columns(mode: Mode) -> None:
    require_supported(KEYED, mode)
    condition = CURRENT_ROWS.get(mode, "TRUE").removeprefix("NOT ")
    assert condition == "TRUE" or condition in MODE_COLUMNS[mode]
    assert (mode in CURRENT_ROWS) == (mode is not Mode.APPEND)
