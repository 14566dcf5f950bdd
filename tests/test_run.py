import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from progcl import InputError, fit, load_config
from progcl.data.datasets import load_dataset
from progcl.data.splits import held_out
from progcl.data.synthetic import csbm
from progcl.errors import ProgclWarning
from progcl.methods import METHODS
from progcl.miners import MINERS
from progcl.miners.frozen import FrozenPosterior
from progcl.posteriors.baselines import Oracle
from progcl.seeding import derive_seed
from progcl.training.trainer import Record, Trainer
from support.runs import SMALL, small


def content(folder: Path) -> dict[str, Any]:
    """result.json but for what a clock measured."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert set(result.pop("seconds")) == {"train", "probe"}
    return result


def embeddings(folder: Path) -> Any:
    with np.load(folder / "embeddings.npz") as file:
        return file["embeddings"]


@pytest.mark.filterwarnings("ignore:no mixture")  # one of MERIT's three sets of negatives
@pytest.mark.parametrize("miner", MINERS)
@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_bits(miner: str, method: str, tmp_path: Path) -> None:
    config = small(miner__name=miner, method__name=method)
    first, again = fit(config, out=tmp_path / "a"), fit(config, out=tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert torch.equal(first.embeddings, again.embeddings)
    other = fit(replace(config, train=replace(config.train, seed=1)))
    assert not torch.equal(first.embeddings, other.embeddings)


def test_a_run_folder_holds_everything(tmp_path: Path) -> None:
    result = fit(small(), out=tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.yaml",
        "log.jsonl",
        "checkpoint.safetensors",
        "embeddings.npz",
        "mixture.svg",
        "curves.json",
        "result.json",
    }
    assert load_config(str(tmp_path / "run" / "config.yaml")) == small()
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log] == list(range(1, 13))
    assert [line["loss"] for line in log] == result.losses
    assert [line["epoch"] for line in log if "mixture" in line] == [6]
    stored = content(tmp_path / "run")
    assert stored["seed"] == 0
    assert {"python", "progcl", "torch"} <= set(stored["versions"])
    assert len(stored["score"]["accuracies"]) == 2
    np.testing.assert_array_equal(embeddings(tmp_path / "run"), result.embeddings.numpy())


def test_training_lowers_the_loss_and_calls_back() -> None:
    seen: list[Record] = []
    result = fit(small(miner__name="none"), on_epoch=seen.append)
    assert [record.epoch for record in seen] == list(range(1, 13))
    assert result.losses[-1] < result.losses[0]
    assert result.mixture is None


@pytest.mark.filterwarnings("ignore:no mixture")
@pytest.mark.parametrize("miner", MINERS)
@pytest.mark.parametrize(
    ("method", "stop", "anchors"), [("grace", 3, None), ("grace", 8, None), ("gca", 8, 60), ("merit", 8, 60)]
)
def test_an_interrupted_run_ends_with_the_same_bits(
    method: str, miner: str, stop: int, anchors: int | None, tmp_path: Path
) -> None:
    class Interrupt(Exception):
        pass

    def interrupt(record: Record) -> None:
        if record.epoch == stop:
            raise Interrupt

    config = small(miner__name=miner, method__name=method, train__anchors=anchors)
    whole = fit(config, out=tmp_path / "whole")
    with pytest.raises(Interrupt):
        fit(config, out=tmp_path / "cut", on_epoch=interrupt)
    resumed = fit(config, out=tmp_path / "cut", resume=True)
    assert content(tmp_path / "whole") == content(tmp_path / "cut")
    assert torch.equal(whole.embeddings, resumed.embeddings)
    assert whole.losses == resumed.losses


def test_a_killed_process_ends_with_the_same_bits(tmp_path: Path) -> None:
    options = [f"--{key}={value}" for key, value in {**SMALL, "train.epochs": 80}.items()]
    command = [sys.executable, "-m", "progcl", "train", "csbm", *options]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True, env=environment)
    process = subprocess.Popen([*command, "--out", str(tmp_path / "cut")], stderr=subprocess.DEVNULL, env=environment)
    log = tmp_path / "cut" / "log.jsonl"
    while process.poll() is None and (not log.exists() or log.read_text().count("\n") < 8):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    assert not (tmp_path / "cut" / "result.json").exists()
    again = [*command, "--out", str(tmp_path / "cut"), "--resume"]
    subprocess.run(again, check=True, capture_output=True, env=environment)
    assert content(tmp_path / "whole") == content(tmp_path / "cut")
    np.testing.assert_array_equal(embeddings(tmp_path / "whole"), embeddings(tmp_path / "cut"))


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    fit(small(), out=tmp_path / "grown")
    longer = small(train__epochs=20)
    grown = fit(longer, out=tmp_path / "grown", resume=True)
    assert torch.equal(grown.embeddings, fit(longer).embeddings)


def test_a_run_cannot_become_shorter(tmp_path: Path) -> None:
    fit(small(), out=tmp_path / "run")
    with pytest.raises(InputError, match="has 12 epochs already"):
        fit(small(train__epochs=8), out=tmp_path / "run", resume=True)
    assert load_config(str(tmp_path / "run" / "config.yaml")) == small()


def test_a_run_killed_while_it_wrote_its_first_file_can_start_again(tmp_path: Path) -> None:
    (tmp_path / ".config.yaml.part").write_text("half")
    assert fit(small(), out=tmp_path, resume=True).losses == fit(small()).losses


def test_a_run_that_ends_before_the_mining_says_so() -> None:
    with pytest.warns(UserWarning, match="no mining: miner.start_epoch is 6, the last epoch 3"):
        assert fit(small(train__epochs=3)).mixture is None


@pytest.mark.parametrize("miner", ["progcl-weight", "progcl-mix"])
def test_a_shared_first_stage_changes_no_bit(miner: str, tmp_path: Path) -> None:
    shared = tmp_path / "stage.safetensors"
    fit(small(miner__name="none"), first_stage=shared)
    assert shared.exists()
    seen: list[int] = []
    branched = fit(small(miner__name=miner), first_stage=shared, on_epoch=lambda record: seen.append(record.epoch))
    assert seen[0] == 6
    assert torch.equal(branched.embeddings, fit(small(miner__name=miner)).embeddings)


def test_what_is_in_the_folder_is_not_lost(tmp_path: Path) -> None:
    fit(small(), out=tmp_path / "run")
    with pytest.raises(InputError, match="holds a run already"):
        fit(small(), out=tmp_path / "run")
    with pytest.raises(InputError, match=r"has `train.lr` = 0.001, not 0.5"):
        fit(small(train__lr=0.5), out=tmp_path / "run", resume=True)
    fit(small(train__lr=0.01), out=tmp_path / "run", force=True)
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    for how in ({}, {"force": True}, {"resume": True}):
        with pytest.raises(InputError, match="which is no part of a run"):
            fit(small(), out=tmp_path / "run", **how)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        fit(small(), out=tmp_path / "file")


def test_a_broken_checkpoint_is_refused(tmp_path: Path) -> None:
    fit(small(), out=tmp_path / "run")
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="is not a checkpoint"):
        fit(small(), out=tmp_path / "run", resume=True)
    (tmp_path / "run" / "config.yaml").write_text("")
    with pytest.raises(InputError, match="holds no sections"):
        fit(small(), out=tmp_path / "run", resume=True)


def test_divergence_is_said() -> None:
    with pytest.raises(InputError, match="the loss of epoch"):
        fit(small(train__lr=1e30, probe__protocol="none"))


def test_a_users_own_graph_and_no_labels() -> None:
    data = csbm(nodes=80, degree=20, homophily=0.95, signal=3)
    del data.y
    result = fit(small(probe__protocol="none"), data=data)
    assert result.embeddings.shape == (80, 16)
    assert result.score is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "has no `x`"),
        ({"edge_index": None}, "has no `edge_index`"),
        ({"edge_index": torch.zeros(2, 3)}, "whole numbers"),
        ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, r"edge_index \[2, E\]"),
        ({"edge_index": torch.tensor([[0], [80]])}, "names node 80"),
        ({"x": torch.full((80, 3), torch.nan)}, "NaN"),
        ({"y": torch.zeros(5)}, "y has 5 values"),
        ({"y": None}, "no labels"),
    ],
)
def test_bad_graphs_are_refused_before_training(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = csbm(nodes=80)
    for key, value in change.items():
        data[key] = value
    with pytest.raises(InputError, match=message):
        fit(small(), data=data, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_odd_types_of_a_users_graph_are_fine() -> None:
    data = csbm(nodes=80, degree=20, homophily=0.95, signal=3)
    plain = fit(small(), data=data)
    data.x, data.edge_index, data.y = data.x.double(), data.edge_index.int(), data.y[:, None]
    assert fit(small(), data=data).score == plain.score


def test_a_run_on_a_users_graph_says_so_and_is_not_mixed_up(tmp_path: Path) -> None:
    first, second = (csbm(nodes=80, degree=20, homophily=0.95, signal=3, seed=seed) for seed in (0, 1))
    fit(small(), data=first, out=tmp_path / "run")
    assert load_config(tmp_path / "run" / "config.yaml").data.name == "own"
    with pytest.raises(InputError, match="belongs to another graph"):
        fit(small(train__epochs=20), data=second, out=tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="a graph of your own"):
        load_dataset(load_config(tmp_path / "run" / "config.yaml").data.name)


def test_the_mlp_encoder_trains() -> None:
    assert fit(small(encoder__name="mlp")).score is not None


def test_named_generators_differ() -> None:
    seeds = {derive_seed(seed, name) for seed in (0, 1) for name in ("init", "view1", "view2", "miner")}
    assert len(seeds) == 8


def test_a_block_size_changes_no_result() -> None:
    dense, blocked = (fit(small(loss__block_size=size)) for size in (150, 20))
    torch.testing.assert_close(dense.embeddings, blocked.embeddings, rtol=1e-3, atol=1e-4)


def test_state_holds_every_generator() -> None:
    training = Trainer(small(), csbm(nodes=30))
    tensors, _ = training.state()
    assert {f"generator.{name}" for name in ("init", "view1", "view2", "anchors")} <= set(tensors)
    assert "method.criterion.miner._extra_state" in tensors


def test_anchors_change_the_run_unless_they_are_all() -> None:
    everyone, some, more = (fit(small(train__anchors=number)).losses for number in (None, 60, 1000))
    assert everyone == more
    assert everyone != some


def test_nodes_that_cannot_be_split_are_refused_before_training() -> None:
    def never(record: Record) -> None:
        raise AssertionError("it trained")

    with pytest.raises(InputError, match="at least 10 nodes"):
        fit(small(data__nodes=40, probe__nodes="tuning"), on_epoch=never)


BATCHES: dict[str, Any] = {
    "batch__size": 40,
    "batch__fanouts": [4, 3],
    "encoder__name": "sage",
    "train__lr": 0.005,
}


@pytest.mark.filterwarnings("ignore:no mixture")  # some batches of 40 nodes have none
@pytest.mark.parametrize("variant", ["snapshot", "paper"])
@pytest.mark.parametrize("miner", ["none", "progcl-weight", "progcl-mix"])
def test_an_interrupted_run_in_batches_ends_with_the_same_bits(miner: str, variant: str, tmp_path: Path) -> None:
    config = small(**BATCHES, miner__name=miner, batch__variant=variant, train__epochs=10, train__checkpoint_every=3)
    undisturbed = fit(config, out=tmp_path / "a")

    def stop(record: Record) -> None:
        if record.epoch == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(config, out=tmp_path / "b", on_epoch=stop)
    resumed = fit(config, out=tmp_path / "b", resume=True)
    assert torch.equal(undisturbed.embeddings, resumed.embeddings)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert undisturbed.losses[-1] < undisturbed.losses[0]


@pytest.mark.parametrize("size", [None, 40])
def test_inductive_training_never_sees_the_other_nodes(size: int | None) -> None:
    config = small(
        **{**BATCHES, "batch__size": size},
        data__inductive=True,
        probe__nodes="heldout",
        train__epochs=8,
        data__normalize=False,
    )
    data = csbm(nodes=150, degree=20, homophily=0.95, signal=3)
    train, _, test = held_out(data)
    blurred = csbm(nodes=150, degree=20, homophily=0.95, signal=3)
    blurred.x[test] = 100.0
    inside = torch.zeros(150, dtype=torch.bool).index_fill_(0, train, True)
    blurred.edge_index = blurred.edge_index[:, inside[blurred.edge_index].all(dim=0)]
    first, other = fit(config, data=data), fit(config, data=blurred)
    assert first.losses == other.losses
    assert not torch.equal(first.embeddings[test], other.embeddings[test])
    assert first.score is not None
    assert len(first.score.accuracies) == 1
    assert first.score.mean > 60


@pytest.mark.parametrize("changes", [{"method__name": "gca"}, {"train__anchors": 50}])
def test_inductive_training_on_the_whole_subgraph(changes: dict[str, Any]) -> None:
    result = fit(small(data__inductive=True, probe__nodes="heldout", **changes))
    assert len(result.embeddings) == 150


def test_an_oracle_of_inductive_training_knows_the_nodes_by_their_numbers_there() -> None:
    config = small(data__inductive=True, probe__nodes="heldout", miner__estimator="oracle")
    data = csbm(nodes=150)
    training = Trainer(config, data)
    assert isinstance(training.miner, FrozenPosterior)
    assert isinstance(training.miner.estimator, Oracle)
    assert torch.equal(training.miner.estimator.classes, data.y[held_out(data)[0]])


def test_batches_that_begin_to_mine_after_the_last_epoch_say_so() -> None:
    with pytest.warns(ProgclWarning, match="collects until the next"):
        fit(small(**BATCHES, train__epochs=6))


def test_a_mixture_for_every_batch_is_reported_as_many() -> None:
    result = fit(small(**BATCHES, batch__variant="paper"))
    assert result.mixture is not None
    facts = {key: result.mixture[key] for key in ("batches", "degenerate batches", "degenerate")}
    assert facts == {"batches": 4, "degenerate batches": 0, "degenerate": False}


def test_batches_of_mapped_features_are_those_of_features_in_memory(tmp_path: Path) -> None:
    config = small(**BATCHES, train__epochs=8)
    mapped = small(**BATCHES, train__epochs=8, data__mapped=str(tmp_path / "x.npy"))
    first, other = fit(config), fit(mapped)
    torch.testing.assert_close(first.embeddings, other.embeddings, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch.size": 40, "method.name": "gca", "batch.fanouts": [2, 2]}, "needs the whole graph"),
        ({"batch.size": 40, "train.anchors": 20, "batch.fanouts": [2, 2]}, "as a whole"),
        ({"batch.size": 40, "batch.fanouts": [1, 2, 3]}, "3 `batch.fanouts` for 2 `encoder.layers`"),
        ({"batch.size": 40, "batch.variant": "paper", "batch.steps": 2}, "leave out nodes"),
        ({"data.inductive": True, "method.name": "merit", "probe.protocol": "none"}, "whole graph"),
        ({"batch.size": 40, "batch.fanouts": "many"}, r"as in \"\[10, 10, 25\]\""),
        ({"batch.size": 1, "batch.fanouts": [2, 2]}, "batch.size"),
        ({"batch.size": 40, "batch.fanouts": [2, 0]}, "batch.fanouts"),
        ({"data.inductive": True}, "held-out nodes"),
    ],
)
def test_batches_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config("csbm", changes)


def test_a_step_limit_makes_short_epochs() -> None:
    seen: list[int] = []
    training = Trainer(small(**BATCHES, batch__steps=2), load_dataset("csbm", nodes=150))
    training.on_step = lambda loss, nodes: seen.append(nodes)
    assert len(list(training.run(3))) == 3
    assert seen == [40] * 6
