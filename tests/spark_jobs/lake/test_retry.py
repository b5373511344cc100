import pytest

from spark_jobs.errors import LostRace
from spark_jobs.lake.retry import retry_on_conflict


@pytest.mark.spark
def test_what_lost_a_race_is_planned_again_until_others_win_every_time() -> None:
    races = [LostRace("first"), LostRace("second")]

    def run() -> str:
        if races:
            raise races.pop()
        return "done"

    assert retry_on_conflict(run, wait=0.001) == "done"
    races[:] = [LostRace("always")] * 9
    with pytest.raises(LostRace, match="always"):
        retry_on_conflict(run)
    assert len(races) == 4
