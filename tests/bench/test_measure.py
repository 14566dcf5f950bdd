"""Timing by turns, peak memory and text tables."""

import mmap
import sys

import pytest
from tqdm import tqdm

from progcl.bench.measure import align_columns, measure_peak, time_by_turns


def test_sides_take_turns() -> None:
    calls: list[str] = []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    with tqdm(disable=True) as progress:
        seconds = time_by_turns(sides, 2, progress)
    assert calls == ["a", "b"] * 3
    assert set(seconds) == {"a", "b"}


def test_peak_memory_counts_what_is_freed_again() -> None:
    def touch_pages() -> None:
        with mmap.mmap(-1, 80 * 2**20) as pages:  # malloc might reuse what other tests have freed
            for start in range(0, len(pages), mmap.PAGESIZE):
                pages[start] = 1

    peak = measure_peak(touch_pages)
    assert (peak is None) == (sys.platform != "linux")
    assert peak is None or peak == pytest.approx(80, abs=5)


def test_tables_are_aligned() -> None:
    assert align_columns(["", "a"], [["long name", "1"], ["x", "200"]]).splitlines() == [
        "             a",
        "long name    1",
        "x          200",
    ]
