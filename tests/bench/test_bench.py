"""That the benchmarks measure what they say, at sizes of a second; no figure is asserted."""

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import GCNConv
from tqdm import tqdm

from progcl import InputError, ProGCLMix
from progcl.bench.dense import DenseInfoNCE
from progcl.bench.epoch import EpochBench, ours, pygs
from progcl.bench.loss import TAU, LossBench, Products, fitted, make_views
from progcl.bench.measure import by_turns, peak_above, table
from progcl.bench.probe import ProbeBench
from progcl.bench.sampler import SamplerBench
from progcl.cli.main import main
from progcl.data.synthetic import csbm
from progcl.miners import PROPOSED
from progcl.miners.frozen import FrozenPosterior


@pytest.mark.parametrize("name", PROPOSED)
def test_dense_autograd_is_the_same_loss(name: str) -> None:
    views = [view.double().requires_grad_() for view in make_views(120, 16)]
    loss = fitted(name, (views[0], views[1]))
    miner = loss.miner if isinstance(loss.miner, FrozenPosterior) else None
    assert miner is None or miner.active
    value = loss(*views)
    expected = DenseInfoNCE(TAU, miner)(*views)
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    for a, b in zip(torch.autograd.grad(value, views), torch.autograd.grad(expected, views), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)


def test_the_dense_side_mixes_the_pairs_that_were_drawn() -> None:
    loss = fitted("progcl-mix", make_views(50, 16))
    assert isinstance(loss.miner, ProGCLMix)
    assert DenseInfoNCE(TAU, loss.miner).lists[0][0].shape == (50, 49)


def test_the_layers_compared_are_equal() -> None:
    data = csbm(nodes=60, features=5)
    torch.manual_seed(0)
    mine, theirs = ours(data, 3), pygs(data, 3)
    weight = next(cell.cell_contents for cell in mine.__closure__ if isinstance(cell.cell_contents, torch.Tensor))
    layer = next(cell.cell_contents for cell in theirs.__closure__ if isinstance(cell.cell_contents, GCNConv))
    with torch.no_grad():
        layer.lin.weight.copy_(weight.T)
    torch.testing.assert_close(mine(), theirs())


def test_sides_take_turns() -> None:
    calls: list[str] = []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    with tqdm(disable=True) as progress:
        seconds = by_turns(sides, 2, progress)
    assert calls == ["a", "b"] * 3
    assert set(seconds) == {"a", "b"}


def test_the_products_are_twelve_n_squared_d() -> None:
    products = Products(3000, 64)
    flops = products.number * 3 * 2 * products.out.numel() * 64
    assert flops == pytest.approx(12 * 3000**2 * 64, rel=0.02)


def test_peak_memory_counts_what_is_freed_again() -> None:
    peak = peak_above(lambda: torch.ones(20_000_000).sum())
    assert peak is None or 70 < peak < 200


def test_tables_are_aligned() -> None:
    assert table(["", "a"], [["long name", "1"], ["x", "200"]]).splitlines() == [
        "             a",
        "long name    1",
        "x          200",
    ]


def test_bench_loss_writes_its_result(tmp_path: Path) -> None:
    text = LossBench(nodes=80, width=8, repeats=1, sizes=()).run(tmp_path)
    result = json.loads((tmp_path / "loss.json").read_text())
    assert set(result["results"]["compared"]) == set(PROPOSED)
    assert result["settings"]["nodes"] == 80
    assert "speed-up" in text
    assert (tmp_path / "loss.svg").read_text().lstrip().startswith("<?xml")


def test_growth_is_measured_in_a_process_of_its_own() -> None:
    bench = LossBench(width=8)
    with tqdm(disable=True) as progress:
        rows = [bench._alone("none", nodes, "progcl", progress) for nodes in (64, 128)]
    assert [row["nodes"] for row in rows] == [64, 128]
    assert all(row["seconds"] > 0 for row in rows)
    quadratic = [{"miner": "none", "side": "progcl", "nodes": n, "seconds": n**2, "peak_mb": n} for n in (10, 100)]
    assert bench._exponents("none", quadratic) == {"seconds": 2.0, "peak_mb": 1.0}


@pytest.mark.filterwarnings("ignore:no mixture")
def test_bench_epoch_writes_its_result(tmp_path: Path) -> None:
    text = EpochBench(data="csbm", layer_data="digits", width=8, repeats=1).run(tmp_path)
    result = json.loads((tmp_path / "epoch.json").read_text())["results"]
    for row in result["epochs"].values():
        assert 0 < row["rest"] < row["after"]
    assert set(result["layers"]) == {"64 to 8", "8 to 8"}
    assert "not the loss" in text


def test_bench_probe_finds_the_same_accuracy(tmp_path: Path) -> None:
    ProbeBench(splits=1, repeats=1).run(tmp_path)
    accuracy = json.loads((tmp_path / "probe.json").read_text())["results"]["accuracy"]
    assert accuracy["progcl"] == pytest.approx(accuracy["scikit-learn"], abs=0.3)


def test_bench_sampler_writes_its_result(tmp_path: Path) -> None:
    text = SamplerBench(nodes=200, edges=900, batch=8, batches=3, repeats=1).run(tmp_path)
    result = json.loads((tmp_path / "sampler.json").read_text())
    assert all(speed > 0 for speed in result["results"]["batches per second"].values())
    assert "1800 edges" in text


def test_wrong_options_of_bench_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, word in ((["probe", "--nodes", "5"], "bench probe"), (["loss", "--repeats", "0"], "repeats")):
        with pytest.raises(SystemExit):
            main(["bench", *arguments])
        assert word in capsys.readouterr().err
    with pytest.raises(InputError, match="data set"):
        EpochBench(data="nonsense").run(Path("unused"))
