"""A time budget: what is reserved, and how it follows the pace of the machine."""

import math

import pytest

from progcl.budget import MARGIN, MAX_PACE, MIN_PACE, Budget, parse_duration
from progcl.errors import InputError


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_what_is_planned_is_reserved() -> None:
    clock = Clock()
    budget = Budget(60.0, clock)
    assert budget.left() == budget.available() == 60.0
    budget.plan({"prepare": 4.0, "output": 10.0, "report": 6.0})
    assert budget.available() == pytest.approx(60 - MARGIN * 20)
    budget.release("report")
    assert budget.available() == pytest.approx(60 - MARGIN * 14)
    with budget.stage("prepare"):
        clock.time += 4.0
    assert budget.available() == pytest.approx(56 - MARGIN * 10)


@pytest.mark.parametrize(("took", "pace"), [(9.0, 2.0), (4.0, 1.0), (1e3, MAX_PACE), (0.0, MIN_PACE)])
def test_a_slower_machine_reserves_more(took: float, pace: float) -> None:
    clock = Clock()
    budget = Budget(1e4, clock)
    budget.plan({"prepare": 4.0, "output": 10.0})
    with budget.stage("prepare"):
        clock.time += took
    assert budget.pace == pace
    assert budget.available() == pytest.approx(1e4 - took - MARGIN * pace * 10)


def test_a_stage_that_fails_is_over() -> None:
    budget = Budget(10.0, Clock())
    budget.plan({"output": 5.0})
    with pytest.raises(KeyError), budget.stage("output"):
        raise KeyError
    assert budget.available() == 10.0


def test_without_a_limit_everything_is_available() -> None:
    budget = Budget()
    budget.plan({"output": 5.0})
    assert budget.available() == budget.left() == math.inf
    assert not budget.is_limited


def test_durations() -> None:
    durations = {"90": 90, "90s": 90, "5m": 300, "1h30m": 5400, "0.5h": 1800, "1m5s": 65}
    assert {text: parse_duration(text) for text in durations} == durations
    for text in ("", "soon", "5 m", "-5m", "5d"):
        with pytest.raises(InputError, match=f"`{text}` is not a duration"):
            parse_duration(text)
