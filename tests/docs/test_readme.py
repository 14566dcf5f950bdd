"""Every command and every piece of Python that the README shows runs."""

from pathlib import Path

import pytest
import torch

from progcl.data.synthetic import csbm
from support.blocks import README, ROOT, Reader, blocks_of, commands_of

pytestmark = pytest.mark.docs


def test_there_is_something_to_run() -> None:
    assert any(command.startswith("progcl train") for command in commands_of(README))
    assert {"python", "diff"} <= {block.language for block in blocks_of(README)}


@pytest.mark.parametrize("command", [command for command in commands_of(README) if command.startswith("make ")])
def test_make_targets_exist(command: str) -> None:
    assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text()


@pytest.mark.docs(seconds=20)
@pytest.mark.filterwarnings("ignore:no mixture fitted")
def test_the_readme_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with a graph, and the same with one more node; the reader's own network is a small one."""
    monkeypatch.chdir(tmp_path)
    edges = csbm(nodes=60).edge_index.T.tolist()
    Path("my_graph.csv").write_text("".join(f"{one},{other}\n" for one, other in edges))
    Path("grown.csv").write_text(Path("my_graph.csv").read_text() + "60,0\n60,1\n")
    h = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(layer.parameters())
    Reader(monkeypatch, embed_two_views=lambda: (layer(h), layer(h + 0.1)), optimizer=optimizer).read(README)
