import signal

import pytest

from spark_jobs.runtime.signals import handled_by

NUMBERS = (signal.SIGUSR1, signal.SIGUSR2)


@pytest.mark.parametrize("is_once, seen", [(False, NUMBERS), (True, NUMBERS[:1])])
def test_signals_are_handled_within_the_block_and_as_before_behind_it(is_once: bool, seen: tuple[int, ...]) -> None:
    earlier, handled = list[int](), list[int]()
    with handled_by(lambda number, _: earlier.append(number), *NUMBERS):
        with handled_by(lambda number, _: handled.append(number), *NUMBERS, is_once=is_once):
            for number in NUMBERS:
                signal.raise_signal(number)
        assert tuple(handled) == seen
        assert len(earlier) == len(NUMBERS) - len(seen)
        signal.raise_signal(signal.SIGUSR1)
        assert earlier[-1] == signal.SIGUSR1


def test_an_error_leaves_the_handlers_of_before() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with pytest.raises(ZeroDivisionError), handled_by(lambda *_: 1 / 0, signal.SIGUSR1):
        signal.raise_signal(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) == before
