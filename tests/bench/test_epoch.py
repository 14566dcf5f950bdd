"""`bench epoch` compares equal layers, and splits the time of an epoch; no time is asserted."""

import json
from pathlib import Path

import pytest
import torch

from progcl import InputError
from progcl.bench.epoch import EpochBench, assert_same_output, layer_sides
from progcl.data.synthetic import csbm


@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_layers_compared_are_equal() -> None:
    torch.manual_seed(0)
    data = csbm(nodes=60, features=5)
    data.edge_index = data.edge_index[:, data.edge_index[0] > 9]  # directed: source and target are not to be swapped
    sides = layer_sides(data, 3)
    assert set(sides) == {"progcl", "pyg", "pyg csr", "pyg EdgeIndex"}
    assert_same_output(sides)
    assert all(run().requires_grad for run in sides.values())
    with pytest.raises(AssertionError, match="pyg csr"):
        assert_same_output({**sides, "pyg csr": lambda: sides["pyg"]() + 0.01})


@pytest.mark.filterwarnings("ignore:no mixture")
def test_bench_epoch_writes_its_result(tmp_path: Path) -> None:
    text = EpochBench(data="csbm", layer_data="digits", width=8, repeats=1).run(tmp_path)
    result = json.loads((tmp_path / "epoch.json").read_text())["results"]
    for row in result["epochs"].values():
        assert 0 < row["rest"] < row["after"]
    assert set(result["layers"]) == {"64 to 8", "8 to 8"}
    for row in result["layers"].values():
        fastest = min(row[side] for side in ("pyg", "pyg csr", "pyg EdgeIndex"))
        assert row["speed-up over fastest"] == pytest.approx(fastest / row["progcl"])
        assert row["speed-up"] >= row["speed-up over fastest"]
    assert "not the loss" in text


def test_an_unknown_data_set_is_refused() -> None:
    with pytest.raises(InputError, match="data set"):
        EpochBench(data="nonsense").run(Path("unused"))
