"""Fixtures that files share; and the order of the tests: marked ones last, the longest of them first."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("nightly", max_examples=10_000, deadline=None)

MARKERS = ("docs", "browser", "kill", "processes", "large")  # declared in pyproject.toml


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by marker; `@pytest.mark.kill(seconds=20)` says how long a test takes, so that two workers end together."""
    items.sort(key=_position)


def _position(item: pytest.Item) -> tuple[bool, float]:
    marks = [mark for mark in item.iter_markers() if mark.name in MARKERS]
    return bool(marks), -max((float(mark.kwargs.get("seconds", 0)) for mark in marks), default=0.0)


@pytest.fixture
def user_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a user's graph in it: g.csv, x.csv, y.csv and g.npz; maps are drawn in few steps."""
    from support.graphs import write_user_graph  # the controller of several workers need not wait for torch

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("progcl.report.maps.TSNE_ITERATIONS", 125)
    write_user_graph(tmp_path)
    return tmp_path
