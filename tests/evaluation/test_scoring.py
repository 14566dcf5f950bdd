"""Scores of several embeddings: the order, the time, and what is kept."""

from typing import Any

import pytest
import torch

from progcl import load_config
from progcl.config.schema import ProbeConfig
from progcl.data.synthetic import csbm
from progcl.embed import choose_settings
from progcl.evaluation import scoring
from progcl.evaluation.health import RAW, REST
from progcl.evaluation.scores import Score
from progcl.evaluation.scoring import baselines, limit_seconds, score_each

DATA = csbm(nodes=60, classes=3)


class Probe:
    """A probe whose splits take a number of seconds each on a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.time, self.seconds = 0.0, seconds

    def __call__(self, vectors: Any, data: Any, **options: Any) -> Score:
        deadline = self.time + options["seconds"]
        accuracies: tuple[float, ...] = ()
        while len(accuracies) < options["splits"] and (not accuracies or self.time + self.seconds < deadline):
            self.time += self.seconds
            accuracies += (50.0,)
            options["on_split"](Score("clean", accuracies))
        return Score("clean", accuracies)


@pytest.mark.parametrize(
    ("seconds", "splits"),
    [(1000.0, [5, 5, 5]), (100.0, [3, 3, 3]), (25.0, [1, 1]), (10.0, [1]), (1.0, [1])],
)
def test_time_is_shared_and_no_row_has_more_splits_than_the_first(
    seconds: float, splits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    probe, kept = Probe(10.0), list[dict[str, Score]]()
    monkeypatch.setattr(scoring, "linear_probe", probe)
    vectors = {name: lambda: torch.ones(60, 2) for name in ("own", "raw", "hops")}
    scores = score_each(vectors, DATA, ProbeConfig(splits=5), kept.append, seconds, clock=lambda: probe.time)
    assert [len(score.accuracies) for score in scores.values()] == splits
    assert kept[-1] == scores
    assert len(kept) == sum(splits)


def test_the_limit_is_the_time_of_training_but_not_too_short() -> None:
    limits = [limit_seconds(ProbeConfig(limit=limit), 100.0) for limit in (1.0, 0.5, 0.1, 0.0, None)]
    assert limits == [100.0, 50.0, 30.0, 30.0, float("inf")]


def test_the_part_that_needed_no_training_is_what_stands_beside_the_learned_columns() -> None:
    vectors = torch.arange(360.0).reshape(60, 6)
    file = load_config("embed", {"data.graph": "graph.csv"})
    rows = baselines(file, DATA, vectors, {"learned columns": 4})
    assert [name for name in rows if "hops" not in name] == [REST, RAW]
    assert rows[REST]().equal(vectors[:, 4:])
    assert rows[RAW]().equal(DATA.x)
    for facts in ({}, {"learned columns": 0}, {"learned columns": 6}):  # another method, nothing learned, nothing else
        assert REST not in baselines(file, DATA, vectors, facts)
    untrained = load_config("embed", {"data.graph": "g.csv", **choose_settings(DATA, {"method.name": "raw"})})
    assert REST not in baselines(untrained, DATA, vectors, {"learned columns": 4})
    assert baselines(load_config("csbm"), DATA, vectors, {"learned columns": 4}) == {}  # these have --probe.compare
