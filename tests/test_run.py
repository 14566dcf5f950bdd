"""fit: the run folder, interrupted and resumed runs, graphs of a user's own, batches and inductive training."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError, fit, load_config
from progcl.data.datasets import load_dataset
from progcl.data.splits import heldout_split
from progcl.data.synthetic import csbm
from progcl.errors import ProgclWarning
from progcl.miners import MINERS
from progcl.result import Result
from progcl.run import FirstStage
from progcl.seeding import derive_seed
from progcl.training.trainer import Record
from support.runs import BATCHES, SMALL, assert_same_run, fit_interrupted, read_embeddings, read_log, read_result, small


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The folder of a finished run, only to be read, and its result."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, fit(small(), out=folder)


@pytest.fixture
def folder(finished: tuple[Path, Result], tmp_path: Path) -> Path:
    """A copy of a finished run that a test may change."""
    for path in finished[0].iterdir():
        (tmp_path / "run" / path.name).parent.mkdir(exist_ok=True)
        (tmp_path / "run" / path.name).write_bytes(path.read_bytes())
    return tmp_path / "run"


@pytest.mark.parametrize("miner", MINERS)
def test_every_miner_resumes_with_the_same_bits(miner: str, tmp_path: Path) -> None:
    """Interrupted before and after its start; with anchors, since these are drawn in every step."""
    config = small(miner__name=miner, train__anchors=100, probe__protocol="none")
    fit(config, out=tmp_path / "whole")
    fit_interrupted(config, tmp_path / "interrupted", 3, 8)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")


@pytest.mark.kill(seconds=5)
def test_a_killed_process_ends_with_the_same_bits(tmp_path: Path) -> None:
    epochs = {"train.epochs": 80}  # so that it cannot end before it is killed
    options = {
        key: value for key, value in {**SMALL, **epochs}.items() if key not in ("miner.hardest", "miner.synthetic")
    }
    command = [sys.executable, "-m", "progcl", "train", "csbm", *(f"--{key}={value}" for key, value in options.items())]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "killed")], stderr=subprocess.DEVNULL, env=environment
    )
    log = tmp_path / "killed" / "log.jsonl"
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") >= 8):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    assert not (tmp_path / "killed" / "result.json").exists()
    config = small(train__epochs=80)
    fit(config, out=tmp_path / "whole")
    fit(config, out=tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_run_folder_holds_everything(finished: tuple[Path, Result]) -> None:
    folder, result = finished
    names = {path.name for path in folder.iterdir()}
    checkpoints = {"checkpoint.safetensors", "checkpoint-previous.safetensors"}
    files = {"config.yaml", "log.jsonl", "embeddings.npz", "result.json", "mixture.svg", "curves.json"}
    assert names == checkpoints | files
    assert load_config(folder / "config.yaml") == small()
    log = read_log(folder)
    assert [line["epoch"] for line in log] == list(range(1, 13))
    assert [line["loss"] for line in log] == result.losses
    assert [line["epoch"] for line in log if "mixture" in line.get("facts", ())] == [6]
    stored = read_result(folder)
    assert (stored["seed"], stored["loss"], stored["facts"]) == (0, result.losses[-1], result.facts)
    assert stored["versions"]["torch"] == torch.__version__
    assert result.score is not None
    assert stored["score"]["accuracies"] == list(result.score.accuracies)
    assert len(result.score.accuracies) == 2
    assert torch.equal(torch.from_numpy(read_embeddings(folder)), result.embeddings)


def test_every_epoch_calls_back() -> None:
    records: list[Record] = []
    result = fit(small(miner__name="none", train__epochs=3), on_epoch=records.append)
    assert [(record.epoch, record.loss) for record in records] == list(enumerate(result.losses, 1))
    assert result.mixture is None


def test_a_finished_run_can_be_made_longer(folder: Path) -> None:
    longer = small(train__epochs=16)
    assert torch.equal(fit(longer, out=folder, resume=True).embeddings, fit(longer).embeddings)


def test_a_run_cannot_become_shorter(folder: Path) -> None:
    with pytest.raises(InputError, match="has 12 epochs already"):
        fit(small(train__epochs=8), out=folder, resume=True)
    assert load_config(folder / "config.yaml") == small()


def test_a_run_killed_while_it_wrote_its_first_file_starts_again(finished: tuple[Path, Result], tmp_path: Path) -> None:
    (tmp_path / ".config.yaml.part").write_text("half")
    assert fit(small(), out=tmp_path, resume=True).losses == finished[1].losses


def test_a_run_that_ends_before_mining_starts_warns() -> None:
    with pytest.warns(UserWarning, match="no mining: miner.start_epoch is 6, the last epoch 3"):
        assert fit(small(train__epochs=3)).mixture is None


@pytest.mark.parametrize("miner", ["progcl-weight", "progcl-mix"])
def test_a_shared_first_stage_changes_no_bit(miner: str, tmp_path: Path) -> None:
    shared = FirstStage(tmp_path / "stage.safetensors", epochs=5)
    fit(small(miner__name="none", train__epochs=5, probe__protocol="none"), first_stage=shared)
    assert shared.path.exists()
    epochs: list[int] = []
    config = small(miner__name=miner, probe__protocol="none")
    branched = fit(config, first_stage=shared, on_epoch=lambda record: epochs.append(record.epoch))
    assert epochs[0] == 6
    assert torch.equal(branched.embeddings, fit(config).embeddings)


def test_files_in_the_folder_are_not_lost(folder: Path, tmp_path: Path) -> None:
    before = read_embeddings(folder)
    with pytest.raises(InputError, match="holds a run already"):
        fit(small(), out=folder)
    with pytest.raises(InputError, match=r"has `train.lr` = 0.001, not 0.5"):
        fit(small(train__lr=0.5), out=folder, resume=True)
    assert (read_embeddings(folder) == before).all()
    fit(small(train__lr=0.01), out=folder, force=True)
    assert not (read_embeddings(folder) == before).all()
    (folder / "thesis.tex").write_text("years of work")
    for options in ({}, {"force": True}, {"resume": True}):
        with pytest.raises(InputError, match="which is no file of a run"):
            fit(small(), out=folder, **options)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        fit(small(), out=tmp_path / "file")


@pytest.mark.filterwarnings("ignore:.*is damaged")
def test_broken_files_of_a_run_to_resume_are_refused(folder: Path) -> None:
    for name in ("checkpoint.safetensors", "checkpoint-previous.safetensors"):
        (folder / name).write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"checkpoint.safetensors` is damaged"):
        fit(small(), out=folder, resume=True)
    (folder / "config.yaml").write_text("")
    with pytest.raises(InputError, match="holds no sections"):
        fit(small(), out=folder, resume=True)


def test_a_diverging_run_ends_with_a_hint() -> None:
    with pytest.raises(InputError, match=r"row 0 of the embeddings is not finite\n\nhint: .* --train.lr"):
        fit(small(train__lr=1e30, probe__protocol="none"))
    with pytest.raises(InputError, match=r"the loss of epoch \d+ is nan\n\nhint: try a smaller --train.lr"):
        fit(small(train__lr=1e30, probe__protocol="none", method__name="dgi", miner__name="none"))


def test_nodes_that_cannot_be_split_are_refused_before_training() -> None:
    def fail(record: Record) -> None:
        raise AssertionError("it trained")

    with pytest.raises(InputError, match="at least 10 nodes"):
        fit(small(data__nodes=40, probe__nodes="tuning"), on_epoch=fail)


# A user's own graph


def own_graph(seed: int = 0) -> Data:
    return csbm(nodes=80, degree=20, homophily=0.95, signal=3, seed=seed)


def test_a_graph_without_labels_is_embedded_and_not_probed() -> None:
    data = own_graph()
    del data.y
    result = fit(small(probe__protocol="none"), data=data)
    assert result.embeddings.shape == (80, 16)
    assert result.score is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": None}, "has no `edge_index`"),
        ({"edge_index": torch.tensor([[0], [80]])}, "names node 80"),
        ({"x": torch.full((80, 3), torch.nan)}, "NaN"),
        ({"y": torch.zeros(5)}, "`y` has 5 values"),
        ({"y": None}, "no labels"),
    ],
)
def test_bad_graphs_are_refused_before_a_folder_is_made(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = own_graph()
    for key, value in change.items():
        data[key] = value
    with pytest.raises(InputError, match=message):
        fit(small(), data=data, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_other_types_of_the_same_numbers_give_the_same_run() -> None:
    data = own_graph()
    expected = fit(small(), data=data)
    data.x, data.edge_index, data.y = data.x.double(), data.edge_index.int(), data.y[:, None]
    result = fit(small(), data=data)
    assert result.score == expected.score
    assert torch.equal(result.embeddings, expected.embeddings)


def test_a_run_on_a_users_graph_is_not_resumed_with_another(tmp_path: Path) -> None:
    fit(small(), data=own_graph(), out=tmp_path / "run")
    name = load_config(tmp_path / "run" / "config.yaml").data.name
    assert name == "own"
    with pytest.raises(InputError, match="belongs to another graph"):
        fit(small(train__epochs=20), data=own_graph(seed=1), out=tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="a graph of your own"):
        load_dataset(name)


# Options that change a run, and those that do not


def test_named_generators_differ() -> None:
    seeds = {derive_seed(seed, name) for seed in (0, 1) for name in ("init", "view1", "view2", "miner")}
    assert len(seeds) == 8


def test_a_block_size_changes_no_result() -> None:
    dense, blocked = (fit(small(loss__block_size=size, probe__protocol="none")) for size in (150, 20))
    torch.testing.assert_close(dense.embeddings, blocked.embeddings, rtol=1e-3, atol=1e-4)


def test_anchors_change_the_run_unless_they_are_all(finished: tuple[Path, Result]) -> None:
    everyone, some = (fit(small(train__anchors=number, probe__protocol="none")).losses for number in (1000, 60))
    assert everyone == finished[1].losses
    assert some != finished[1].losses


def test_the_encoder_changes_the_run(finished: tuple[Path, Result]) -> None:
    mlp = fit(small(encoder__name="mlp"))
    assert mlp.losses[4] < mlp.losses[0]
    assert mlp.losses != finished[1].losses


# Batches and inductive training


@pytest.mark.filterwarnings("ignore:no mixture")  # some batches of 40 nodes have none
@pytest.mark.parametrize(
    ("miner", "variant"),
    [("none", "snapshot"), ("progcl-weight", "snapshot"), ("progcl-weight", "paper"), ("progcl-mix", "paper")],
)
def test_an_interrupted_run_in_batches_ends_with_the_same_bits(miner: str, variant: str, tmp_path: Path) -> None:
    options = {"train__epochs": 10, "train__checkpoint_every": 3, "probe__protocol": "none"}
    config = small(**BATCHES, miner__name=miner, batch__variant=variant, **options)
    losses = fit(config, out=tmp_path / "whole").losses
    fit_interrupted(config, tmp_path / "interrupted", 8)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")
    assert losses[4] < losses[0]


@pytest.mark.parametrize("changes", [BATCHES, {**BATCHES, "batch__size": None}, {"train__anchors": 50}])
def test_inductive_training_never_reads_the_other_nodes(changes: dict[str, Any]) -> None:
    """Other features of the test nodes, and none of the edges to nodes that are not trained on."""
    config = small(**changes, data__inductive=True, probe__nodes="heldout", train__epochs=8)
    data, changed = (csbm(nodes=150, degree=20, homophily=0.95, signal=3) for _ in range(2))
    train, _, test = heldout_split(data)
    changed.x[test] = 100.0
    inside = torch.zeros(150, dtype=torch.bool).index_fill_(0, train, True)
    changed.edge_index = changed.edge_index[:, inside[changed.edge_index].all(dim=0)]
    first, other = fit(config, data=data), fit(config, data=changed)
    assert first.losses == other.losses
    assert not torch.equal(first.embeddings[test], other.embeddings[test])
    assert first.score is not None
    assert len(first.score.accuracies) == 1
    assert first.score.mean > 60


def test_batches_that_would_mine_after_the_last_epoch_warn() -> None:
    with pytest.warns(ProgclWarning, match="collects until the next"):
        fit(small(**BATCHES, train__epochs=6))


def test_a_mixture_for_every_batch_is_reported_as_many() -> None:
    result = fit(small(**BATCHES, batch__variant="paper", train__epochs=7))
    assert result.mixture is not None
    facts = {key: result.mixture[key] for key in ("batches", "degenerate batches", "degenerate")}
    assert facts == {"batches": 4, "degenerate batches": 0, "degenerate": False}


def test_batches_of_mapped_features_are_those_of_features_in_memory(tmp_path: Path) -> None:
    config = small(**BATCHES, train__epochs=8, probe__protocol="none")
    other = fit(replace(config, data=replace(config.data, mapped=str(tmp_path / "x.npy"))), data_root=tmp_path)
    torch.testing.assert_close(fit(config).embeddings, other.embeddings, atol=1e-4, rtol=1e-3)
