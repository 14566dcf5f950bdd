"""The contract that every method of the table keeps, and a method without parameters."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError, fit, load_config
from progcl.config.methods import ABILITIES, METHODS
from progcl.data.splits import heldout_split
from progcl.data.synthetic import csbm
from progcl.distributed import Workers
from progcl.graph.hop_table import HopTable
from progcl.graph.images import ImageSet
from progcl.graph.sampled import SampledGraph
from progcl.methods import method_type
from progcl.miners.frozen import FrozenPosterior
from progcl.result import Result
from progcl.training import checkpoint
from progcl.training.trainer import Trainer
from support.images import data_for
from support.runs import assert_same_run, equal_states, fit_interrupted, read_log, read_result, small

pytestmark = pytest.mark.filterwarnings("ignore:no mixture")  # one of MERIT's three sets of negatives
DATA = csbm(nodes=90, degree=12, homophily=0.95, signal=3)
TINY: dict[str, Any] = {
    "miner__name": "none",
    "encoder__hidden": 8,
    "train__epochs": 6,
    "train__checkpoint_every": 2,
    "probe__protocol": "none",
}
ASKS: dict[str, dict[str, Any]] = {  # what makes a run ask its method for an ability
    "batches": {"batch__size": 30, "batch__fanouts": [4, 3], "encoder__name": "sage"},
    "inductive": {"data__inductive": True},
    "miner": {"miner__name": "progcl-weight", "miner__start_epoch": 5, "train__lr": 0.02},
    "anchors": {"train__anchors": 40},
    "hop-table": {"encoder__name": "hops", "encoder__hops": [0, 1], "method__drop_edges": [0.0, 0.0]},
}
CLAIMED = [(name, ability) for name in METHODS for ability in ASKS if ability in METHODS[name].options.supports]
UNCLAIMED = [(name, ability) for name in METHODS for ability in ASKS if ability not in METHODS[name].options.supports]


HALF_HOPPED = [name for name in METHODS if "half_hop" in METHODS[name].options.option_names()]
TRAINED = [name for name in METHODS if method_type(name).trained]


@pytest.mark.parametrize("name", TRAINED)
def test_a_method_learns_and_resumes_with_the_same_bits(name: str, tmp_path: Path) -> None:
    config = small(**{**TINY, "train__epochs": 16, "train__lr": 0.01}, method__name=name)
    result = fit(config, data=data_for(name, DATA), out=tmp_path / "whole")
    first, last = result.losses[0], sum(result.losses[-3:]) / 3
    assert last < 0.97 * first
    fit_interrupted(config, tmp_path / "interrupted", 1, 7, data=data_for(name, DATA))
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")
    other = fit(replace(config, train=replace(config.train, seed=1)), data=data_for(name, DATA))
    assert not torch.equal(result.embeddings, other.embeddings)


@pytest.mark.parametrize("name", METHODS)
def test_evaluation_leaves_the_state_of_a_run_alone(name: str) -> None:
    """Also the running statistics of BatchNorm and the random generators."""
    trainer = Trainer(small(**TINY, method__name=name, encoder__norm="batch"), data_for(name, DATA))
    list(trainer.run(3))
    before = {key: value.clone() for key, value in trainer.state()[0].items()}
    embeddings = trainer.embed()
    assert trainer.method.training
    assert equal_states(trainer.state()[0], before)
    assert torch.equal(trainer.embed(), embeddings)
    assert not embeddings.requires_grad


@pytest.mark.parametrize("name", HALF_HOPPED)
def test_slow_nodes_change_training_resume_and_are_never_embedded(name: str, tmp_path: Path) -> None:
    plain = small(**TINY, method__name=name)
    config = replace(plain, method=replace(plain.method, half_hop=0.7))  # type: ignore[call-arg]
    result = fit(config, data=DATA, out=tmp_path / "whole")
    assert len(result.embeddings) == 90
    assert result.losses != fit(plain, data=DATA).losses
    fit_interrupted(config, tmp_path / "interrupted", 2, 5, data=DATA)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")
    trainer = Trainer(config, DATA)
    trainer.restore(checkpoint.load(tmp_path / "whole" / "checkpoint.safetensors"))
    without = Trainer(plain, DATA)
    without.method.load_state_dict(trainer.method.state_dict())
    assert torch.equal(trainer.embed(), without.embed())


def test_slow_nodes_are_refused_where_no_messages_pass_over_them() -> None:
    asked = {**TINY, "method__half_hop": 0.5}
    for encoder in ("mlp", "svd", "hops"):
        with pytest.raises(InputError, match=f"encoder `{encoder}` passes no messages"):
            small(**asked, encoder__name=encoder, method__drop_edges=[0.0, 0.0])
    with pytest.raises(InputError, match="sampled neighbors have no slow nodes"):
        small(**asked, **ASKS["batches"])
    with pytest.raises(InputError, match=r"method `coles` has no option `half_hop`\n\nhint: `grace`, .*have it"):
        load_config("csbm", {"method.name": "coles", "method.half_hop": 0.5})
    with pytest.raises(InputError, match=r"`method.half_hop` needs to be in \[0, 1\] \(got 2\)"):
        small(**TINY, method__half_hop=2)


def test_every_ability_is_asked_for() -> None:
    """Beside several processes, and images and weights, which the data ask for: test_simclr.py, test_weights.py."""
    assert set(ASKS) | {"processes", "images", "weights"} == set(ABILITIES)


@pytest.mark.parametrize(("name", "ability"), CLAIMED)
def test_a_claimed_ability_works_and_resumes(name: str, ability: str, tmp_path: Path) -> None:
    config, data = small(**{**TINY, **ASKS[ability]}, method__name=name), data_for(name, DATA)
    result = fit(config, data=data, out=tmp_path / "whole")
    trainer = Trainer(config, data)
    CHECKS[ability](result, trainer)
    if not trainer.method.trained:
        return
    fit_interrupted(config, tmp_path / "interrupted", 2, 5, data=data)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")


@pytest.mark.parametrize(("name", "ability"), UNCLAIMED)
def test_an_ability_that_is_not_claimed_is_refused(name: str, ability: str) -> None:
    able = ", ".join(other for other, entry in METHODS.items() if ability in entry.options.supports)
    lack, remedy = ABILITIES[ability]
    with pytest.raises(InputError) as refused:
        small(**{**TINY, **ASKS[ability]}, method__name=name)
    assert str(refused.value) == f"method `{name}` {lack}\n\nhint: {remedy}, or a method that can: {able}"


@pytest.mark.parametrize("name", [name for name in METHODS if "processes" not in METHODS[name].options.supports])
def test_several_processes_are_refused_where_they_are_not_claimed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/test_distributed.py runs those that claim them."""
    monkeypatch.setattr("progcl.run.connect", lambda: Workers(0, 2))
    with pytest.raises(
        InputError, match=f"method `{name}` runs in one process\n\nhint: .*, or a method that can: grace"
    ):
        fit(small(**TINY, method__name=name), data=DATA)


def _uses_batches(result: Result, trainer: Trainer) -> None:
    assert isinstance(trainer.graph, (SampledGraph, ImageSet))
    assert trainer.method.steps == (2 if trainer.config.method.needs_labels else 3)  # 9 of 90 nodes of each split
    assert len(set(result.losses)) == 6


def _ignores_heldout_nodes(result: Result, trainer: Trainer) -> None:
    """Their features change their own embeddings, not the training."""
    data = data_for(result.config.method.name, DATA)
    train, _, test = heldout_split(data)
    assert len(trainer.train_data.x) == len(train)
    changed = Data(**{**data.to_dict(), "x": data.x.clone()})
    changed.x[test] += 5
    other = fit(result.config, data=changed)
    assert other.losses == result.losses
    assert not torch.equal(other.embeddings[test], result.embeddings[test])


def _mines(result: Result, trainer: Trainer) -> None:
    assert result.mixture is not None
    assert not result.mixture["degenerate"]
    miners = trainer.method.miners()
    assert miners
    assert all(isinstance(miner, FrozenPosterior) for miner in miners)
    plain = fit(small(**TINY, method__name=result.config.method.name, train__lr=0.02), data=trainer.data)
    assert plain.losses[:4] == result.losses[:4]
    assert plain.losses[4:] != result.losses[4:]


def _contrasts_some_nodes(result: Result, trainer: Trainer) -> None:
    """Fewer negatives make a smaller loss."""
    plain = fit(small(**TINY, method__name=result.config.method.name), data=DATA)
    assert all(some < everyone for some, everyone in zip(result.losses, plain.losses, strict=True))


def _reads_a_hop_table(result: Result, trainer: Trainer) -> None:
    assert isinstance(trainer.graph, HopTable)
    assert not trainer.method.trained or result.losses[-1] < result.losses[0]


CHECKS = {
    "batches": _uses_batches,
    "inductive": _ignores_heldout_nodes,
    "miner": _mines,
    "anchors": _contrasts_some_nodes,
    "hop-table": _reads_a_hop_table,
}


@pytest.mark.filterwarnings("ignore:the embedding has collapsed")
def test_a_method_without_parameters_is_embedded_probed_and_resumed(tmp_path: Path) -> None:
    config = small(method__name="support.methods:Constant", method__level=2)
    result = fit(config, out=tmp_path / "run")
    assert result.losses == []
    assert torch.equal(result.embeddings, torch.full((150, 3), 2.0))
    assert result.score is not None
    assert result.score.mean < 40  # equal rows: a class of the five for all
    assert read_log(tmp_path / "run") == []
    assert read_result(tmp_path / "run")["loss"] is None
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert files == {"config.yaml", "log.jsonl", "checkpoint.safetensors", "embeddings.npz", "result.json"}
    resumed = fit(config, out=tmp_path / "run", resume=True)
    assert torch.equal(resumed.embeddings, result.embeddings)
    assert resumed.score == result.score
