"""The memory model: each phase grows with what it depends on, buffers are chosen to fit, and the rest is refused."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from progcl import InputError, fit, load_config
from progcl.config.schema import Config
from progcl.data.datasets import load_data
from progcl.embed import settings_by_size
from progcl.losses.infonce import default_memory
from progcl.memory import limit_memory, resident
from progcl.report.maps import MAX_NODES
from progcl.training.memory import MAP_NODES, GraphSize, embedding_width, estimate_memory, fit_to_memory
from support.commands import refusal

SIZE = GraphSize(20_000, 200_000, 32)


def dotted(settings: dict[str, object]) -> dict[str, object]:
    return {key.replace("__", "."): value for key, value in settings.items()}


def train(**settings: object) -> Config:
    return load_config("csbm", dotted(settings))


def embed(**settings: object) -> Config:
    return load_config("embed", {**settings_by_size(SIZE.nodes), **dotted(settings)})


def test_phases_of_commands() -> None:
    assert list(estimate_memory(train(), SIZE)) == ["training", "output", "scoring"]
    assert list(estimate_memory(train(probe__protocol="none"), SIZE)) == ["training", "output"]
    assert list(estimate_memory(embed(), SIZE)) == ["training", "output", "scoring", "the report"]
    assert MAP_NODES == MAX_NODES


@pytest.mark.parametrize("phase", ["training", "output", "scoring", "the report"])
def test_every_phase_grows_with_the_graph(phase: str) -> None:
    for larger in (replace(SIZE, nodes=40_000), replace(SIZE, edges=400_000), replace(SIZE, features=64)):
        assert estimate_memory(embed(), larger)[phase] > estimate_memory(embed(), SIZE)[phase]


def test_what_makes_training_smaller() -> None:
    whole = estimate_memory(train(), SIZE)["training"]
    for smaller in (
        {"loss__memory": 10},
        {"train__anchors": 1000},
        {"batch__size": 256, "batch__fanouts": [5, 5]},
        {"encoder__hidden": 16},
    ):
        assert estimate_memory(train(**smaller), SIZE)["training"] < whole, smaller
    assert estimate_memory(train(miner__name="hcl"), SIZE)["training"] != whole


def test_mapped_features_are_not_in_memory() -> None:
    wide = replace(SIZE, features=10_000)
    held, mapped = (estimate_memory(train(), size)["output"] for size in (wide, replace(wide, mapped=True)))
    assert held - mapped == 8.0 * wide.nodes * wide.features


def test_no_embedding_is_wider_than_estimated() -> None:
    settings = {"train.epochs": 1, "batch.size": None, "batch.steps": None, "output.blocks": "learned"}
    settings |= {"encoder.hidden": 16, "data.name": "csbm", "data.nodes": 150, "probe.protocol": "none"}
    config = load_config("embed", settings)
    data = load_data(config.data)
    width = embedding_width(config, GraphSize.of(data))
    assert 0.7 * width <= fit(config, data=data).embeddings.size(1) <= width
    reduced = replace(config, output=replace(config.output, dim=7))
    assert embedding_width(reduced, GraphSize.of(data)) == 7


def test_buffers_are_chosen_to_fit_the_limit() -> None:
    base, least = train(), estimate_memory(train(loss__memory=0), SIZE)
    tight = fit_to_memory(base, SIZE, max(least.values()) / 0.97 + 2e8)
    assert tight.loss.memory == pytest.approx(200 * 0.97, abs=1)
    assert max(estimate_memory(tight, SIZE).values()) <= max(least.values()) + 2.01e8
    assert replace(tight, loss=base.loss) == base
    assert fit_to_memory(base, SIZE, 1e12).loss.memory == pytest.approx(default_memory() / 1e6, abs=0.1)


def test_what_is_held_already_counts() -> None:
    assert estimate_memory(train(), SIZE, held=3e9)["training"] > 3e9
    with pytest.raises(InputError, match=r"about 3.. GB of memory are needed for training, 3.0 GB are allowed"):
        fit_to_memory(train(), SIZE, 3e9, held=3e9)


@pytest.mark.parametrize(
    ("config", "size", "hint"),
    [
        (embed(), SIZE, "--output.structure 0 leaves out the walk vectors, which need"),
        (train(), replace(SIZE, nodes=10**7), "--batch.size 512"),
        (train(batch__size=256, batch__fanouts=[5, 5]), replace(SIZE, features=10**7), "a smaller --encoder.hidden"),
    ],
)
def test_a_refusal_says_what_would_help(config: Config, size: GraphSize, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        fit_to_memory(config, size, 6e8)


def test_a_run_within_a_limit_learns_the_same() -> None:
    config = load_config("csbm", {"data.nodes": 300, "train.epochs": 3, "miner.start_epoch": 2, "probe.splits": 1})
    free = fit(config)
    with limit_memory(resident() + 3e8):
        limited = fit(config)
    assert limited.config.loss.memory is not None
    assert limited.config.loss.memory < 300
    torch.testing.assert_close(limited.embeddings, free.embeddings)
    assert limited.score == free.score


def test_a_run_is_refused_before_its_folder_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = refusal(capsys, "train", "csbm", "--memory", "50MB", "--out", str(tmp_path / "run"))
    assert re.search(r"of memory are needed, 0 MB are left\n\nhint: ", error)
    assert not (tmp_path / "run").exists()
    assert "is not an amount of memory" in refusal(capsys, "train", "csbm", "--memory", "much")


@pytest.mark.processes(seconds=15)
def test_the_limit_is_kept(tmp_path: Path) -> None:
    """The peak of a process that would take 1.0 GB without a limit."""
    settings = ["--data.nodes=5000", "--train.epochs=2", "--miner.start_epoch=1", "--probe.protocol=none"]
    code = (
        "import sys; from progcl.cli.main import main; main(sys.argv[1:])\n"
        "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    )
    command = [sys.executable, "-c", code, "train", "csbm", *settings, "--memory", "750MB"]
    done = subprocess.run([*command, "--out", "run"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert int(done.stdout.split()[-1]) * 1024 < 1.15 * 750e6
