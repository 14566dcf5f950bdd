"""`bench probe` compares classifiers of equal accuracy; no time is asserted."""

import json
from pathlib import Path

import pytest

from progcl.bench.probe import ProbeBench


def test_bench_probe_finds_the_same_accuracy(tmp_path: Path) -> None:
    ProbeBench(splits=1, repeats=1).run(tmp_path)
    accuracy = json.loads((tmp_path / "probe.json").read_text())["results"]["accuracy"]
    assert accuracy["progcl"] == pytest.approx(accuracy["scikit-learn"], abs=0.3)
