"""`bench loss` compares equal losses, and measures growth in fresh processes; no time is asserted."""

import json
from pathlib import Path

import pytest
import torch
from tqdm import tqdm

from progcl import ProGCLMix
from progcl.bench.dense import DenseInfoNCE
from progcl.bench.loss import TAU, LossBench, Products, make_fitted_loss, make_views
from progcl.miners import PROPOSED
from progcl.miners.frozen import FrozenPosterior


@pytest.mark.parametrize("name", PROPOSED)
def test_dense_autograd_is_the_same_loss(name: str) -> None:
    views = [view.double().requires_grad_() for view in make_views(120, 16)]
    loss = make_fitted_loss(name, (views[0], views[1]))
    miner = loss.miner if isinstance(loss.miner, FrozenPosterior) else None
    assert miner is None or miner.active
    value = loss(*views)
    expected = DenseInfoNCE(TAU, miner)(*views)
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    for a, b in zip(torch.autograd.grad(value, views), torch.autograd.grad(expected, views), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)


def test_the_dense_side_mixes_the_pairs_that_were_drawn() -> None:
    loss = make_fitted_loss("progcl-mix", make_views(50, 16))
    assert isinstance(loss.miner, ProGCLMix)
    assert DenseInfoNCE(TAU, loss.miner).lists[0][0].shape == (50, 49)


def test_the_products_are_twelve_n_squared_d() -> None:
    products = Products(3000, 64)
    flops = products.number * 3 * 2 * products.out.numel() * 64
    assert flops == pytest.approx(12 * 3000**2 * 64, rel=0.02)


def test_bench_loss_writes_its_result(tmp_path: Path) -> None:
    text = LossBench(nodes=80, width=8, repeats=1, sizes=()).run(tmp_path)
    result = json.loads((tmp_path / "loss.json").read_text())
    assert set(result["results"]["compared"]) == set(PROPOSED)
    assert result["settings"]["nodes"] == 80
    assert "speed-up" in text
    assert (tmp_path / "loss.svg").read_text().lstrip().startswith("<?xml")


@pytest.mark.processes(seconds=5)
def test_growth_is_measured_in_a_process_of_its_own() -> None:
    bench = LossBench(width=8)
    with tqdm(disable=True) as progress:
        row = bench._measure_alone("none", 64, "progcl", progress)
    assert (row["miner"], row["side"], row["nodes"]) == ("none", "progcl", 64)
    assert row["seconds"] > 0


def test_exponents_are_slopes_of_logarithms() -> None:
    quadratic = [{"miner": "none", "side": "progcl", "nodes": n, "seconds": n**2, "peak_mb": n} for n in (10, 100)]
    assert LossBench(width=8)._exponents("none", quadratic) == {"seconds": 2.0, "peak_mb": 1.0}
