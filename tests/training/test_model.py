"""What a run keeps: the same embeddings after it is written and read, for every method that embeds other graphs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from progcl import InputError, load_config
from progcl.data.prepare import prepare
from progcl.data.synthetic import csbm
from progcl.training import checkpoint
from progcl.training.files import Embeddings
from progcl.training.model import Model, Start, read_model
from progcl.training.trainer import Trainer

DATA = prepare(csbm(nodes=120, classes=3, features=12, signal=2))
SMALL: dict[str, Any] = {"encoder.hidden": 6, "train.epochs": 3, "probe.protocol": "none", "hops.dim": 10}
RUNS: dict[str, dict[str, Any]] = {
    "grace, reduced": {"output.smooth": [0, 1], "output.features": True, "output.structure": 9, "output.dim": 7},
    "mined": {"miner.name": "progcl-weight", "miner.start_epoch": 2},
    "bgrl": {"method.name": "bgrl", "encoder.norm": "batch"},
    "mvgrl": {"method.name": "mvgrl"},
    "hops": {"method.name": "hops"},
    "batches": {"encoder.name": "sage", "batch.size": 40, "batch.fanouts": [4, 3], "output.structure": 5},
}


def trained(**overrides: Any) -> Trainer:
    config = load_config("csbm", {**SMALL, **overrides}, strict=False)
    trainer = Trainer(config, DATA)
    list(trainer.run(config.train.epochs))
    return trainer


@pytest.mark.parametrize("name", RUNS)
def test_a_model_that_was_written_embeds_alike(name: str, tmp_path: Path) -> None:
    trainer = trained(**{"miner.name": "none", **RUNS[name]})
    expected = trainer.embed()
    trainer.model().save(tmp_path / "model.safetensors")
    model = Model.load(tmp_path)
    torch.testing.assert_close(model.embed(DATA), expected, atol=1e-5, rtol=1e-5)
    other = prepare(csbm(nodes=50, classes=3, features=12, signal=2, seed=1))
    other.ids = [f"new {node}" for node in range(50)]
    if model.output.walks is None:
        assert model.embed(other).shape == (50, expected.size(1))


def test_it_holds_no_loss_and_no_node_of_a_miner() -> None:
    trainer = trained(**RUNS["mined"])
    trainer.embed()
    weights = trainer.model().weights
    assert weights
    assert not [name for name in weights if "miner" in name or "criterion" in name]


def test_features_of_another_graph_have_to_fit() -> None:
    trainer = trained(**{"miner.name": "none"})
    trainer.embed()
    schema = trainer.model().schema
    with pytest.raises(InputError, match="7 features, not 12 as before"):
        schema.prepare(csbm(nodes=50, features=7))
    bare = csbm(nodes=50, features=7)
    del bare.x
    with pytest.raises(InputError, match="has no features, 12 were there"):
        schema.prepare(bare)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    trainer = trained(**{"miner.name": "none"})
    trainer.embed()
    tensors, values = trainer.model().state()
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, (tensors, {key: value for key, value in values.items() if key != "output"}))
    with pytest.raises(InputError, match="no model that this version reads"):
        Model.load(tmp_path)
    values["config"]["method"]["name"] = "stranger:Method"
    with pytest.raises(InputError, match="code from outside"):
        read_model(path, (tensors, values))


def test_training_starts_from_the_weights_and_keeps_the_choice() -> None:
    options = {"method.name": "neighbors", "method.holdout": 0.2, "output.features": True, "output.blocks": "auto"}
    options |= {"encoder.name": "svd", "encoder.hops": [0], "miner.name": "none"}
    first = trained(**options)
    vectors = first.embed()
    start = Start(first.model(), Embeddings(vectors.numpy(), [str(node) for node in range(120)]))
    config = replace(first.config, train=replace(first.config.train, seed=5))
    second = Trainer(config, DATA, start=start)
    for name, value in second.method.state_dict().items():
        assert torch.equal(value, first.method.state_dict()[name]), name
    again = second.embed()
    assert second.output.choice == first.output.choice
    torch.testing.assert_close(again, vectors, atol=1e-4, rtol=1e-4)  # nothing was trained, and the rotation is none
    assert second.output.facts()["alignment"]["cosine"] == 1.0
