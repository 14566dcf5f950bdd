"""The plot of the weights that miners give to negatives."""

from pathlib import Path

import torch

from progcl import InfoNCE, ProGCLWeight
from progcl.data.synthetic import csbm
from progcl.miners import MINERS
from progcl.miners.base import Block
from progcl.report.plots import draw_weights
from progcl.testing import toy_views


def test_the_weights_of_every_miner_are_drawn(tmp_path: Path) -> None:
    data = csbm(nodes=90, degree=10, homophily=0.9)
    views = tuple(torch.nn.functional.normalize(h.detach(), dim=1) for h in toy_views(90, 6, seed=0))
    losses = {}
    for name in ("progcl-weight", "dcl", "hcl", "ring"):
        losses[name] = InfoNCE(0.4, MINERS[name]())
        losses[name].set_epoch(10**6)
        losses[name].miner.prepare(*views)
    for path in (tmp_path / "weights.svg", tmp_path / "again.svg"):
        draw_weights(losses, (views[0], views[1]), data, path)
    text = (tmp_path / "weights.svg").read_text()
    for name in losses:
        assert f"<!-- {name} -->" in text
    assert (tmp_path / "again.svg").read_text() == text


def test_the_effective_weight_is_the_miners_weight() -> None:
    z1, z2 = (torch.nn.functional.normalize(h.detach(), dim=1) for h in toy_views(20, 6, seed=0))
    sim = torch.stack([z1 @ z2.T, z1 @ z1.T], dim=1)
    block = Block(sim, (z1 * z2).sum(dim=1), (z2, z1), torch.arange(20), 0, 0.4)
    plain = InfoNCE(0.4).effective_weights(block)
    torch.testing.assert_close(plain, block.masked(torch.ones_like(sim), 0))
    loss = InfoNCE(0.4, ProGCLWeight(start_epoch=0))
    loss.miner.prepare(z1, z2)
    weight = loss.miner.weight(block)
    assert weight is not None
    torch.testing.assert_close(loss.effective_weights(block), weight.expand(-1, 2, -1))
