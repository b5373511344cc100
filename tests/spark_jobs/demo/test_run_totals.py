import time
from collections import Counter

from spark_jobs.demo.run_totals import RunTotals


def test_the_clock_of_a_layer_goes_on_from_run_to_run() -> None:
    totals = RunTotals(seconds=Counter({"silver": 5}))
    assert totals.timed("silver", _slowly) == "done"
    assert 5.02 <= totals.seconds["silver"] < 6
    assert totals.seconds["bronze"] == 0


def _slowly() -> str:
    time.sleep(0.02)
    return "done"
