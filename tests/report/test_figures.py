from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from progcl import InfoNCE, ProGCLWeight
from progcl.data.synthetic import csbm
from progcl.miners import MINERS
from progcl.miners.base import Block
from progcl.report.figures import draw_mixture, draw_weights
from progcl.report.mixture import MixturePlot
from progcl.testing import toy_views


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
    draw_mixture(MixturePlot.of(miner, data, pairs=20_000), tmp_path / "a.svg")
    text = words(tmp_path / "a.svg")
    assert "true negatives (by label)" in text
    assert "false negatives (by label)" in text
    draw_mixture(MixturePlot.of(miner, data, pairs=20_000), tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_text() == text


def test_curves_come_back_from_a_file_and_add_up(fitted: tuple[ProGCLWeight, Data]) -> None:
    curves = MixturePlot.of(*fitted, pairs=20_000)
    back = MixturePlot.from_json(curves.to_json())
    assert back.start_epoch == 0
    for name in ("grid", "probability", "chances"):
        np.testing.assert_allclose(getattr(back, name), getattr(curves, name), rtol=1e-5)
    for name, values in {**curves.density, **curves.fitted}.items():
        np.testing.assert_allclose({**back.density, **back.fitted}[name], values, rtol=1e-5)
    assert curves.chances is not None
    assert curves.chances.sum() == pytest.approx(1)
    assert sum(part.mean() for part in curves.density.values()) == pytest.approx(1)


def test_without_labels_there_is_one_histogram(fitted: tuple[ProGCLWeight, Data], tmp_path: Path) -> None:
    miner, _ = fitted
    draw_mixture(MixturePlot.of(miner, None, pairs=20_000), tmp_path / "a.svg")
    text = words(tmp_path / "a.svg")
    assert "by label" not in text
    assert "fitted: false" in text


def test_the_weights_of_every_miner_are_drawn(tmp_path: Path) -> None:
    data = csbm(nodes=90, degree=10, homophily=0.9)
    views = tuple(torch.nn.functional.normalize(h.detach(), dim=1) for h in toy_views(90, 6, seed=0))
    losses = {}
    for name in ("progcl-weight", "dcl", "hcl", "ring"):
        losses[name] = InfoNCE(0.4, MINERS[name]())
        losses[name].set_epoch(10**6)
        losses[name].miner.prepare(*views)
    draw_weights(losses, (views[0], views[1]), data, tmp_path / "weights.svg")
    text = (tmp_path / "weights.svg").read_text()
    assert text.count('<g id="axes_') >= 4


def test_the_push_of_a_negative_is_its_weight() -> None:
    z1, z2 = (torch.nn.functional.normalize(h.detach(), dim=1) for h in toy_views(20, 6, seed=0))
    sim = torch.stack([z1 @ z2.T, z1 @ z1.T], dim=1)
    block = Block(sim, (z1 * z2).sum(dim=1), (z2, z1), torch.arange(20), 0, 0.4)
    plain = InfoNCE(0.4).push(block)
    torch.testing.assert_close(plain, block.masked(torch.ones_like(sim), 0))
    loss = InfoNCE(0.4, ProGCLWeight(start_epoch=0))
    loss.miner.prepare(z1, z2)
    weight = loss.miner.weight(block)
    assert weight is not None
    torch.testing.assert_close(loss.push(block), weight.expand(-1, 2, -1))
