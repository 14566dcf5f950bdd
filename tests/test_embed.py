"""Embed a user's graph: settings by size and width, and a time budget."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError, load_config
from progcl.config import to_dict
from progcl.embed import BYTES_PER_SECOND, NARROW, TimeBudget, choose_settings, describe_plan, embed, parse_duration
from support.graphs import USER_GRAPH

pytestmark = pytest.mark.filterwarnings("ignore:no mixture fitted", "ignore:no mining")
QUICK: dict[str, Any] = {"train.epochs": 2, "encoder.hidden": 16, "probe.splits": 1}


def test_settings_follow_the_size() -> None:
    graphs = (Data(x=torch.ones(2, 300), num_nodes=nodes) for nodes in (30, 2_000, 5_000_000))
    tiny, middle, large = (load_config("embed", choose_settings(data, {})) for data in graphs)
    assert tiny.batch.size is None
    assert middle.batch.size == large.batch.size == 512
    assert middle.batch.steps == 4
    assert large.batch.steps == 10
    for config in (tiny, middle, large):
        assert to_dict(config)["miner"]["start_epoch"] < config.train.epochs
    assert "all at once" in describe_plan(tiny, USER_GRAPH)
    assert "in batches of 512" in describe_plan(middle, USER_GRAPH)


def test_settings_follow_the_width_of_the_features(user_graph: Path) -> None:
    wide, narrow = (Data(x=torch.ones(40, columns), num_nodes=40) for columns in (257, 256))
    for data, encoder in ((wide, "hops"), (narrow, "gcn")):
        assert load_config("embed", choose_settings(data, {"encoder.name": encoder})).view_walk == 0
    assert load_config("embed", choose_settings(narrow, {})).view_walk == 2
    plans = []
    for name, changes in (("narrow", {}), ("wide", {"encoder.rank": 1}), ("own", {"method.walk": 0, "train.lr": 0.5})):
        config = embed("g.npz", Path(name), overrides={**QUICK, **changes}, progress=False).config
        plans.append((config.view_walk, max(to_dict(config)["method"]["drop_features"]), config.train.lr))
        assert ("walk 2" in Path(name, "report.html").read_text()) == (name == "narrow")
        assert ("steps away" in describe_plan(config, USER_GRAPH)) == (name == "narrow")
    assert plans == [(2, 0.0, NARROW["train.lr"]), (0, 0.4, 5e-5), (0, 0.4, 0.5)]


def test_a_budget_plans_fewer_epochs(user_graph: Path) -> None:
    result = embed("g.npz", Path("out"), budget=3, overrides={**QUICK, "train.epochs": 10**6}, progress=False)
    assert 1 <= len(result.losses) <= result.config.train.epochs < 10**6
    with pytest.raises(InputError, match="does not suffice for one epoch"):
        embed("g.npz", Path("none"), budget=1e-3, overrides=QUICK, progress=False)
    assert not Path("none").exists()
    longer = {"train.epochs": len(result.losses) + 1}
    resumed = embed("g.npz", Path("out"), resume=True, overrides=longer, progress=False)
    assert resumed.losses[:-1] == result.losses


def test_time_is_reserved_for_scoring_and_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    small, large = TimeBudget(150.0, bytes_written=1e6), TimeBudget(150.0, bytes_written=30 * BYTES_PER_SECOND)
    assert (small.left(), small.training(), small.scoring()) == (50.0, 30.0, 40.0)
    assert (large.training(), large.scoring()) == (20.0, 35.0)


def test_without_time_left_there_is_no_score(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TimeBudget, "scoring", lambda self: 0.0)
    result = embed("g.npz", Path("late"), budget=60, overrides=QUICK, progress=True)
    assert result.score is None
    assert "no time was left to score" in capsys.readouterr().err
    assert Path("late/report.html").exists()


def test_durations() -> None:
    durations = {"90": 90, "90s": 90, "5m": 300, "1h30m": 5400, "0.5h": 1800, "1m5s": 65}
    assert {text: parse_duration(text) for text in durations} == durations
    for text in ("", "soon", "5 m", "-5m", "5d"):
        with pytest.raises(InputError, match=f"`{text}` is not a duration"):
            parse_duration(text)
