from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch_geometric.data import Data

from progcl import InfoNCE, ProGCLWeight
from progcl.data import csbm
from progcl.figures import draw_mixture


@pytest.fixture(scope="module")
def fitted() -> tuple[ProGCLWeight, Data]:
    data = csbm(nodes=120, classes=3, signal=4)
    miner = ProGCLWeight(start_epoch=0)
    noise = 0.3 * torch.randn(120, 32, generator=torch.Generator().manual_seed(0))
    InfoNCE(0.4, miner)(data.x, data.x + noise)
    return miner, data


def words(path: Path) -> str:
    """The text that matplotlib leaves in the comments of an SVG."""
    ElementTree.parse(path)
    return path.read_text()


def test_with_labels_both_kinds_of_negatives_are_drawn(fitted: tuple[ProGCLWeight, Data], tmp_path: Path) -> None:
    miner, data = fitted
    draw_mixture(miner, data, tmp_path / "a.svg", pairs=20_000)
    text = words(tmp_path / "a.svg")
    assert "true negatives (by label)" in text
    assert "false negatives (by label)" in text
    draw_mixture(miner, data, tmp_path / "b.svg", pairs=20_000)
    assert (tmp_path / "b.svg").read_text() == text


def test_without_labels_there_is_one_histogram(fitted: tuple[ProGCLWeight, Data], tmp_path: Path) -> None:
    miner, _ = fitted
    draw_mixture(miner, None, tmp_path / "a.svg", pairs=20_000)
    text = words(tmp_path / "a.svg")
    assert "by label" not in text
    assert "fitted: false" in text
