"""Estimates: what they depend on, and that they count walks well."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from progcl.data.prepare import prepare
from progcl.data.structure import WalkPlan, _count_pairs, count_distinct_pairs, count_pairs
from progcl.data.synthetic import csbm
from progcl.embed import choose_config, embed
from progcl.estimate import estimate, map_seconds, measure_pace
from progcl.training.memory import GraphSize, estimate_memory

DATA = prepare(csbm(nodes=2000, classes=5, degree=8, features=16))
NEEDS = estimate(choose_config(DATA), DATA, pace=1.0)


@pytest.mark.parametrize("degree", [3, 20])
def test_distinct_pairs_are_about_those_that_walks_have(degree: int) -> None:
    data, plan = prepare(csbm(nodes=1500, degree=degree, homophily=0.95)), WalkPlan()
    counted = 2 * sum(part.nnz for _, part in _count_pairs(data.edge_index, 1500, plan, seed=0).parts())
    assert count_distinct_pairs(data.edge_index, 1500, plan) == pytest.approx(counted, rel=0.3)
    assert count_pairs(WalkPlan(2, 5, 2)) == 2 * (4 + 3)


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        ("train", {"train.epochs": 400}),
        ("output", {"hops.powers": [0, 1, 2, 4, 8, 16]}),
        ("walks", {"output.structure": 256}),
        ("score", {"probe.splits": 20}),
    ],
)
def test_more_work_takes_longer(stage: str, changes: dict[str, Any]) -> None:
    longer = estimate(choose_config(DATA, changes), DATA, pace=1.0)
    assert longer.seconds[stage] > NEEDS.seconds[stage]
    without = estimate(choose_config(DATA, {"output.structure": 0, "probe.protocol": "none"}), DATA, pace=1.0)
    assert (without.seconds["walks"], without.seconds["score"]) == (0.0, 0.0)


def test_a_slow_machine_takes_longer_and_needs_no_more_memory() -> None:
    slow = estimate(choose_config(DATA), DATA, pace=3.0)
    assert slow.total == pytest.approx(3 * NEEDS.total)
    assert (slow.memory, slow.disk) == (NEEDS.memory, NEEDS.disk)
    assert measure_pace() > 0


def test_memory_is_what_a_limit_is_compared_with() -> None:
    phases = estimate_memory(choose_config(DATA), GraphSize.of(DATA))
    assert NEEDS.memory == max(phases.values())


def test_a_graph_without_features_is_not_trained() -> None:
    data = prepare(csbm(nodes=300).update({"x": None}))
    needs = estimate(choose_config(data), data, pace=1.0)
    assert needs.seconds["train"] == needs.seconds["walks"] == 0.0


def test_a_quick_map_is_quick() -> None:
    slow: Callable[..., float] = map_seconds
    assert slow(2000, 60_000, 512, quick=True) < slow(2000, 60_000, 512) < slow(20_000, 60_000, 512)


def test_it_reads_as_a_sentence_and_is_told(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = str(replace(NEEDS, seconds={"train": 30.0, "report": 100.0}, memory=1.26e9, disk=2.5e6))
    assert text == "about 2 min (30 s of training), 1.3 GB of memory, 2 MB of disk"
    embed("g.npz", Path("out"), overrides={"train.epochs": 1, "encoder.hidden": 8, "probe.protocol": "none"})
    assert "\nestimate: about " in capsys.readouterr().err
