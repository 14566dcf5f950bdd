"""Every command and every piece of Python that the README shows runs."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from progcl.cli import main
from progcl.data import csbm
from progcl.errors import ProgclWarning
from shared import copied

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = [line[2:].split("  #")[0].strip() for line in README.splitlines() if line.startswith("$ ")]
QUICK = {
    "train": [
        "--train.epochs=3",
        "--miner.start_epoch=2",
        "--probe.splits=1",
        "--miner.hardest=5",
        "--miner.synthetic=5",
    ],
    "bench": ["--nodes=100", "--width=16", "--sizes=[]", "--repeats=1"],
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_there_is_something_to_run() -> None:
    assert any(command.startswith("progcl train") for command in COMMANDS)
    assert blocks("python")


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_make_targets_exist(command: str) -> None:
    assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text()


@pytest.mark.filterwarnings("ignore:no mixture fitted")
def test_commands_run_in_the_order_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with training cut short."""
    monkeypatch.setenv("PROGCL_DATA", str(copied("photo", tmp_path / "data")))
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        program, *argv = shlex.split(command)
        if program == "progcl":
            main([*argv, *QUICK.get(argv[0], [])])
        else:
            assert program in ("git", "cd", "make", "pip"), command


@pytest.mark.filterwarnings("ignore:no mixture fitted", "ignore:no mining")
@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(0)
    code = re.sub(r'"train.epochs": \d+', '"train.epochs": 3', code)
    code = re.sub(r"range\(1, \d+\)", "range(1, 4)", code)
    h = torch.randn(20, 8, generator=generator)
    layer = torch.nn.Linear(8, 8)
    exec(
        code, {"embed_two_views": lambda: (layer(h), layer(h + 0.1)), "optimizer": torch.optim.Adam(layer.parameters())}
    )


def test_the_python_of_the_page_on_large_graphs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = csbm(nodes=300)
    np.save("x.npy", data.x.numpy())
    np.save("edges.npy", data.edge_index.numpy())
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "large.md").read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    with pytest.warns(ProgclWarning, match="no mining"):
        exec(code.replace('"train.epochs": 20', '"train.epochs": 2'), names)
    assert names["result"].embeddings.shape == (300, 64)
