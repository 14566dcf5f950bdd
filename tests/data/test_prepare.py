"""The one door for graphs: what `prepare` validates, changes, keeps and remarks on."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.io import read_npz
from torch_geometric.utils import is_undirected

from progcl import InputError, ProGCL, fit, load_config
from progcl.data import csbm, digits, load_dataset
from progcl.data.datasets import PUBLISHED
from progcl.data.prepare import prepare
from support.shared import copied, real_file

SYMMETRIC = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]])
TRIANGLE = torch.tensor([[0, 1, 2], [1, 2, 0]])


def graph(edges: torch.Tensor, nodes: int = 3, x: torch.Tensor | None = None) -> Data:
    rows = torch.eye(nodes) if x is None else x
    return Data(edge_index=edges, num_nodes=nodes, x=rows)


def test_a_clean_graph_keeps_its_tensors() -> None:
    data = graph(SYMMETRIC)
    prepared = prepare(data)
    assert prepared.remarks == []
    assert prepared.edge_index.data_ptr() == SYMMETRIC.data_ptr()
    assert prepared.x.data_ptr() == data.x.data_ptr()
    assert "remarks" not in data


@pytest.mark.parametrize(
    ("edges", "nodes", "remark"),
    [
        ([[0, 1, 2, 2], [1, 2, 0, 2]], 3, "1 self-loop left out"),
        ([[0, 0, 1], [1, 1, 2]], 3, "1 duplicate edge left out"),
        ([[0, 1, 2], [1, 2, 0]], 3, "used in both directions"),
        ([[0, 1, 2], [1, 2, 0]], 5, "2 isolated nodes"),
        ([[0, 1, 2, 3], [1, 0, 3, 2]], 4, "2 connected components"),
    ],
)
def test_irregular_edges_are_repaired_and_remarked_on(edges: list[list[int]], nodes: int, remark: str) -> None:
    data = prepare(graph(torch.tensor(edges), nodes))
    assert any(remark in each for each in data.remarks)
    pairs = data.edge_index.T.tolist()
    assert pairs == sorted(pairs)
    assert len(pairs) == len(set(map(tuple, pairs)))
    assert all(a != b and [b, a] in pairs for a, b in pairs)


def test_the_check_without_sorting_agrees_with_sorting() -> None:
    """Sorted, unique edges without loops that are symmetric in degree but not in pairs; and random graphs."""
    cycle = torch.tensor([[0, 1, 2], [1, 2, 0]])  # in- and out-degrees are equal
    assert prepare(graph(cycle)).edge_index.tolist() == SYMMETRIC.tolist()
    generator = torch.Generator().manual_seed(0)
    for trial in range(30):
        edges = torch.randint(0, 5, (2, 12), generator=generator)
        expected = prepare(graph(edges, 5)).edge_index
        assert is_undirected(expected)
        order = torch.randperm(expected.size(1), generator=generator) if trial % 2 else slice(None)
        again = prepare(graph(expected[:, order], 5))
        assert torch.equal(again.edge_index, expected)
        assert not any("direction" in remark for remark in again.remarks)


@pytest.mark.parametrize(
    ("x", "remark"),
    [
        ([[1, 0], [1, 1], [1, 2]], "1 feature of 2 the same for all nodes"),
        ([[0, 1], [0, 1], [1, 0]], "1 node with the same features as another node"),
        ([[0, 1, 1e6], [1, 1, 2], [2, 0, 3]], "rescale the columns"),
    ],
)
def test_unusual_features_are_remarked_on(x: list[list[float]], remark: str) -> None:
    data = prepare(graph(SYMMETRIC, x=torch.tensor(x, dtype=torch.float)))
    assert any(remark in each for each in data.remarks)


def test_a_prepared_graph_passes_again_unchanged() -> None:
    for data in (graph(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]]), 5), Data(edge_index=TRIANGLE, num_nodes=4)):
        once = prepare(data)
        twice = prepare(once)
        assert torch.equal(once.x, twice.x)
        assert torch.equal(once.edge_index, twice.edge_index)
        assert once.remarks == twice.remarks
        assert once.structural == twice.structural == (data.x is None)


def test_attributes_of_nodes_are_kept_and_those_of_edges_dropped() -> None:
    data = graph(TRIANGLE)
    data.y, data.ids, data.classes = torch.tensor([[0], [1], [0]]), ["a", "b", "c"], ["no", "yes"]
    data.train_mask = torch.tensor([[True, False]] * 3)
    data.edge_attr = torch.ones(3)
    data.x = data.x.double()
    data.edge_index = TRIANGLE.int()
    prepared = prepare(data)
    assert prepared.y.tolist() == [0, 1, 0]
    assert (prepared.ids, prepared.classes) == (data.ids, data.classes)
    assert prepared.train_mask is data.train_mask
    assert "edge_attr" not in prepared
    assert any("edge_attr" in remark for remark in prepared.remarks)
    assert prepared.x.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": torch.tensor([[1], [1]])}, "no edges"),
        ({"edge_index": torch.zeros(2, 0, dtype=torch.long)}, "no edges"),
        ({"edge_index": None}, "no `edge_index`"),
        ({"edge_index": torch.zeros(2, 3)}, r"integers \[2, E\] \(got torch.float32"),
        ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, r"\[3, 2\]"),
        ({"edge_index": torch.tensor([[0], [3]])}, "names node 3"),
        ({"edge_index": torch.tensor([[0], [-1]])}, "names node -1"),
        ({"x": torch.ones(3)}, r"features need to be \[N, F\] \(got \[3\]\)"),
        ({"x": torch.ones(4, 2)}, r"features \[4, 2\] for 3 nodes"),
        ({"x": torch.tensor([[0.0, 1], [2, torch.inf], [3, 4]])}, "inf of node `1` in column 2"),
        (
            {"x": torch.tensor([[0.0], [2], [torch.nan]]), "ids": ["a", "b", "c"]},
            "nan of node `c` in column 1",
        ),
        ({"x": torch.ones(1, 1), "num_nodes": 1}, "at least 2 nodes"),
        ({"y": torch.zeros(2)}, "`y` has 2 values for 3 nodes"),
        ({"y": torch.zeros(3, 4)}, "`y` has 12 values for 3 nodes"),
        ({"ids": ["a"]}, "`ids` has 1 values"),
        ({"train_mask": torch.ones(4, dtype=torch.bool)}, "`train_mask` has 4 values"),
    ],
)
def test_bad_graphs_are_refused(change: dict[str, Any], message: str) -> None:
    data = graph(SYMMETRIC)
    for key, value in change.items():
        data[key] = value
    with pytest.raises(InputError, match=message):
        prepare(data)


@pytest.mark.parametrize("data", [Data(edge_index=TRIANGLE), Data(edge_index=TRIANGLE, x=torch.ones(3, 0))])
def test_nodes_without_features_are_counted_by_their_edges(data: Data) -> None:
    prepared = prepare(data)
    assert prepared.structural
    assert prepared.num_nodes == len(prepared.x) == 3


def test_sparse_features_become_dense() -> None:
    assert torch.equal(prepare(graph(SYMMETRIC, x=torch.eye(3).to_sparse())).x, torch.eye(3))


def photo(root: Path) -> tuple[Data, Data]:
    return PUBLISHED["photo"].open(copied("photo", root)), load_dataset("photo", root, normalize=False)


def cora(root: Path) -> tuple[Data, Data]:
    data = read_npz(str(real_file("cora/cora.npz")))
    return data, prepare(data)


@pytest.mark.parametrize(
    "load",
    [
        lambda root: (digits(), load_dataset("digits", normalize=False)),
        lambda root: (csbm(nodes=500), load_dataset("csbm", normalize=False, nodes=500)),
        photo,
        cora,
    ],
    ids=["digits", "csbm", "photo", "cora"],
)
def test_data_sets_keep_their_edges_and_features(load: Callable[[Path], tuple[Data, Data]], tmp_path: Path) -> None:
    before, after = load(tmp_path)
    for name in ("edge_index", "x", "y"):
        assert torch.equal(before[name], after[name]), name


OPTIONS: dict[str, Any] = {
    **{"train.epochs": 4, "train.lr": 1e-3, "train.seed": 0, "output.structure": 0, "probe.protocol": "none"},
    **{"batch.size": None, "batch.steps": None, "encoder.hidden": 8, "encoder.projection": 8},
}


@pytest.mark.filterwarnings("ignore:no mixture fitted")
def test_a_directed_graph_gives_the_same_result_through_every_interface(tmp_path: Path) -> None:
    data = csbm(nodes=60, features=8)
    data.edge_index = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    np.savez(tmp_path / "g.npz", edge_index=data.edge_index.numpy(), x=data.x.numpy())
    file = load_config("embed", {**OPTIONS, "data.graph": str(tmp_path / "g.npz")})
    expected = fit(file).embeddings
    for config in (file, load_config("embed", {**OPTIONS, "data.name": "digits"})):
        assert torch.equal(fit(config, data=data).embeddings, expected)
        assert torch.equal(fit(config, data=prepare(data)).embeddings, expected)
    model = ProGCL(hidden=8, random_state=0, options=OPTIONS)
    assert np.array_equal(model.fit(data).embedding_, expected.numpy())
    assert np.array_equal(model.fit(str(tmp_path / "g.npz")).embedding_, expected.numpy())


def test_mapped_features_are_not_copied(tmp_path: Path) -> None:
    data = csbm(nodes=60)
    np.save(tmp_path / "x.npy", data.x.numpy())
    for mode in ("r", "c"):
        rows = np.load(tmp_path / "x.npy", mmap_mode=mode)
        prepared = prepare(Data(x=rows, edge_index=data.edge_index))
        assert prepared.mapped
        assert prepared.x.data_ptr() == rows.ctypes.data
        assert torch.equal(prepared.x, data.x)
        assert prepare(prepared).x.data_ptr() == rows.ctypes.data
    np.save(tmp_path / "x.npy", data.x.double().numpy())
    with pytest.raises(InputError, match="float32"):
        prepare(Data(x=np.load(tmp_path / "x.npy", mmap_mode="r"), edge_index=data.edge_index))


@pytest.mark.parametrize("chunk", [7, 10**6])
def test_features_that_scaling_makes_equal_are_remarked_on(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["progcl.data.prepare"], "CHUNK_ROWS", chunk)  # the function has the same name
    data = csbm(nodes=30)
    remark = "scaled to length 1, the features of all nodes are the same: they tell nothing"
    positive = torch.rand(30, 1) + 0.1
    for x, expected in ((positive, True), (positive.index_fill(0, torch.tensor([29]), -1.0), False), (data.x, False)):
        prepared = prepare(Data(x=x, edge_index=data.edge_index))
        assert (remark in prepared.remarks) == expected
