"""Embed a user's graph: settings by size, what is chosen, and a time budget."""

import html
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError, load_config
from progcl.cli.main import main
from progcl.config import to_dict
from progcl.config.methods import METHODS
from progcl.embed import MAX_STEPS, MIN_STEPS, _require_disk_space, choose_settings, describe_plan, embed
from progcl.training.choice import describe_choice
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
    for config, steps in ((tiny, MIN_STEPS), (middle, MIN_STEPS), (large, MAX_STEPS)):
        assert config.train.epochs * (config.batch.steps or 1) == steps
    assert "400 steps of all nodes" in describe_plan(tiny, USER_GRAPH)
    assert "400 steps of 512 nodes and their neighbors" in describe_plan(middle, USER_GRAPH)


@pytest.mark.parametrize(("nodes", "width"), [(10, 512), (300_000, 512), (500_000, 256), (1_000_000, 128), (10**8, 64)])
def test_blocks_get_narrower_on_large_graphs(nodes: int, width: int) -> None:
    data = Data(x=torch.ones(2, 300), num_nodes=nodes)
    config = load_config("embed", choose_settings(data, {}))
    assert (config.encoder.hidden, config.encoder.projection, config.hops.dim) == (width, width // 2, width)
    assert load_config("embed", choose_settings(data, {"encoder.hidden": 100})).encoder.hidden == 100


UNSUPERVISED = [name for name, entry in METHODS.items() if not entry.options.needs_labels]
ASKED: dict[str, tuple[dict[str, Any], bool, float]] = {  # changes, whether blocks are chosen, dropout
    "default": ({}, True, 0.4),
    "mlp": ({"encoder.name": "mlp"}, True, 0.4),
    "mlp in batches": ({"encoder.name": "mlp", "batch.size": 60}, False, 0.0),
    "hops as input": ({"encoder.hops": [0, 1]}, False, 0.4),
    "encoder hops": ({"encoder.name": "hops"}, False, 0.4),
    "gcn": ({"encoder.name": "gcn"}, False, 0.4),
    "sage in batches": ({"encoder.name": "sage", "batch.size": 60}, False, 0.0),
    "no holdout": ({"method.holdout": 0.0}, False, 0.4),
    "no features": ({"output.features": False}, False, 0.4),
    **{name: ({"method.name": name}, False, 0.2) for name in UNSUPERVISED if name not in ("neighbors", "simclr")},
}


@pytest.mark.parametrize("name", ASKED)
def test_other_encoders_and_methods_are_embedded(name: str, user_graph: Path) -> None:
    changes, chooses, dropout = ASKED[name]
    overrides = {"train.epochs": 1, "encoder.hidden": 8, "probe.protocol": "none", **changes}
    result = embed("g.npz", Path("out"), overrides=overrides, budget=60, progress=False)
    assert (result.config.output.blocks == "auto") == chooses
    assert result.config.encoder.dropout == dropout
    assert len(result.embeddings) == 240
    assert result.embeddings.isfinite().all()
    if name == "encoder hops":
        assert result.config.encoder.hops == [0, 1, 2, 4, 8]


@pytest.mark.parametrize("encoder", ["svd", "mlp", "gcn", "hops"])
@pytest.mark.parametrize("method", UNSUPERVISED)
def test_settings_for_a_large_graph_are_valid_for_every_method(method: str, encoder: str) -> None:
    data = Data(x=torch.ones(2, 300), num_nodes=5000)
    asked: dict[str, Any] = {"method.name": method, "encoder.name": encoder}
    if encoder in ("svd", "hops") and "hop-table" not in METHODS[method].options.supports:
        with pytest.raises(InputError, match="passes messages in every step"):
            load_config("embed", choose_settings(data, asked))
        return
    asked |= {"method.drop_edges": [0.0, 0.0]} if "drop_edges" in METHODS[method].options.option_names() else {}
    config = load_config("embed", choose_settings(data, asked))
    assert (config.batch.size is not None) == ("batches" in METHODS[method].options.supports)


def test_what_the_options_leave_unused_is_said(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def notes(**overrides: Any) -> str:
        given = {**QUICK, **{key.replace("__", "."): value for key, value in overrides.items()}}
        embed("g.npz", Path("out"), overrides=given, force=True, progress=True)
        return capsys.readouterr().err

    without, weighed = "`progcl-weight` has no part in the embedding", "are not weighed"
    assert without in notes(miner__name="progcl-weight", output__blocks="untrained")
    assert weighed in notes(method__holdout=0.0)
    assert ": no training" in notes(method__name="hops")
    said = notes(miner__name="progcl-weight")
    assert without not in said
    assert weighed not in said
    assert "links are few to judge by" in said
    assert weighed not in notes(output__blocks="learned")
    assert to_dict(load_config("out/config.yaml"))["method"]["holdout"] == 0  # nothing is chosen by held-out edges


def test_features_of_hops_can_be_left_out(user_graph: Path) -> None:
    quick = ["--epochs=1", "--encoder.hidden=8", "--probe.protocol=none"]
    main(["embed", "g.npz", "-o", "out", *quick, "--output.features=false"])
    assert np.load("out/embeddings.npz")["embeddings"].shape == (240, 2 * 8 + 128)


@pytest.mark.parametrize(
    ("asked", "objective", "steps", "tau", "dropout"),
    [
        ({}, "sigmoid", 781, 0.25, 0.4),
        ({"miner.name": "hcl"}, "infonce", MIN_STEPS, 0.3, 0.2),
        ({"method.objective": "infonce"}, "infonce", MIN_STEPS, 0.3, 0.2),
        ({"method.objective": "infonce", "loss.tau": 0.5}, "infonce", MIN_STEPS, 0.5, 0.2),
        ({"method.name": "dgi"}, None, MIN_STEPS, 0.3, 0.2),
    ],
)
def test_a_miner_needs_infonce(
    asked: dict[str, Any], objective: str | None, steps: int, tau: float, dropout: float
) -> None:
    config = load_config("embed", choose_settings(Data(x=torch.ones(2, 300), num_nodes=5000), asked))
    assert getattr(config.method, "objective", None) == objective
    assert config.train.epochs * (config.batch.steps or 1) == pytest.approx(steps, abs=10)
    assert (config.loss.tau, config.encoder.dropout) == (tau, dropout)


@pytest.mark.parametrize("asked", [{"batch.size": None}, {"method.name": "dgi"}])
def test_a_step_of_all_nodes_is_an_epoch(asked: dict[str, Any]) -> None:
    config = load_config("embed", choose_settings(Data(x=torch.ones(2, 300), num_nodes=5000), asked))
    assert (config.batch.size, config.batch.steps, config.train.checkpoint_every) == (None, None, 10)
    assert config.train.epochs == (MIN_STEPS if asked.get("method.name") else 781)


def test_a_miner_starts_after_a_quarter_of_the_epochs() -> None:
    config = load_config("embed", choose_settings(USER_GRAPH, {"miner.name": "progcl-weight", "train.epochs": 40}))
    assert to_dict(config)["miner"]["start_epoch"] == 10


def test_what_was_chosen_is_said(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = embed("g.npz", Path("out"), overrides={"train.epochs": 20, "probe.splits": 1}, progress=True)
    error = capsys.readouterr().err
    choice = result.facts["choice"]
    assert describe_choice(choice) in error
    assert describe_choice(choice) in html.unescape(Path("out/report.html").read_text())
    reduced = embed("g.npz", Path("less"), overrides={**QUICK, "output.dim": 7}, progress=True)
    assert reduced.embeddings.shape == (240, 7)
    assert "reduced to 7: " in capsys.readouterr().err


def test_a_budget_plans_fewer_epochs(user_graph: Path) -> None:
    result = embed("g.npz", Path("out"), budget=3, overrides={**QUICK, "train.epochs": 10**6}, progress=False)
    assert 1 <= len(result.losses) <= result.config.train.epochs < 10**6
    with pytest.raises(InputError, match="does not suffice for one epoch"):
        embed("g.npz", Path("none"), budget=1e-3, overrides=QUICK, progress=False)
    assert not Path("none").exists()
    longer = {"train.epochs": len(result.losses) + 1}
    resumed = embed("g.npz", Path("out"), resume=True, overrides=longer, progress=False)
    assert resumed.losses[:-1] == result.losses


def test_a_result_that_does_not_fit_on_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is not there yet: its nearest parent counts."""
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=2e6 if folder == tmp_path else 1e12))
    _require_disk_space(tmp_path / "runs" / "new", 1.9e6)
    with pytest.raises(InputError, match=f"about 3 MB are needed, 2 MB are free on the disk of `{tmp_path}`"):
        _require_disk_space(tmp_path / "runs" / "new", 3e6)
