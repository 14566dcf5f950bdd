"""Broken files of every format: a graph or an `InputError`, in little time and memory."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from progcl import InputError
from progcl.data.formats import GRAPH_READERS, TABLE_FILES, TABLE_READERS
from support.fuzzing import Case, assert_refused_or_read, mutate, mutations, write_cases

EXAMPLES = max(500, settings().max_examples)  # 10,000 in the profile `nightly`


@cache
def make_cases() -> tuple[Path, list[Case]]:
    """A folder, and the files to break; no fixture, as hypothesis would print it."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    atexit.register(shutil.rmtree, folder)
    return folder, write_cases(folder)


def test_valid_files_of_every_format_are_read() -> None:
    folder, cases = make_cases()
    for case in cases:
        outcome = assert_refused_or_read(folder, case, case.content)
        assert not isinstance(outcome, InputError), (case.name, outcome)
        assert outcome.num_nodes == 6, case.name
    graphs = {Path(case.name.removesuffix(".gz")).suffix for case in cases if case.role == "graph"}
    tables = {Path(case.name).suffix for case in cases if case.role != "graph"}
    assert graphs == {*GRAPH_READERS, *TABLE_FILES}
    assert tables - {".gz"} >= {*TABLE_READERS, ".csv", ".parquet"}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=EXAMPLES == 500,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(number=st.integers(0, 2**16), change=mutations(), inside=st.booleans())
def test_broken_files_are_refused_or_read(number: int, change: Callable[[bytes], bytes], inside: bool) -> None:
    folder, cases = make_cases()
    case = cases[number % len(cases)]
    assert_refused_or_read(folder, case, mutate(case, change, inside))
