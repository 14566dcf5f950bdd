"""Graphs in files of arrays: adjacency matrices, ids, and PyG's data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.formats import read_graph
from support.graphs import EDGES, NAMES, PAIRS, X, adjacency, csr, pairs


def test_an_adjacency_as_scipy_saves_it(tmp_path: Path) -> None:
    scipy.sparse.save_npz(tmp_path / "g.npz", adjacency())
    data = read_graph(str(tmp_path / "g.npz"))
    assert pairs(data) == PAIRS
    assert data.num_nodes == 4
    assert data.get("x") is None


@pytest.mark.parametrize("ids", [["a", "b", "c", "d"], [3, 2, 1, 0]])
def test_ids_in_a_file_of_arrays_are_names_and_edges_are_indices(ids: list[Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=EDGES, x=X, ids=np.array(ids))
    data = read_graph(str(tmp_path / "g.npz"))
    assert pairs(data) == PAIRS
    assert data.ids == [str(name) for name in ids]
    np.savez(tmp_path / "b.npz", **csr("adj", adjacency()), x=X, ids=np.array(NAMES, dtype="S"))
    assert read_graph(str(tmp_path / "b.npz")).ids == NAMES
    np.savez(tmp_path / "g.npz", edge_index=EDGES, x=X, ids=np.array(ids[:3]))
    with pytest.raises(InputError, match=r"`.*g.npz`: 3 ids for 4 nodes"):
        read_graph(str(tmp_path / "g.npz"))


def test_isolated_nodes_of_a_pyg_graph_count(tmp_path: Path) -> None:
    torch.save(Data(edge_index=torch.tensor(EDGES), num_nodes=9), tmp_path / "g.pt")
    assert read_graph(str(tmp_path / "g.pt")).num_nodes == 9
    big = torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1), (10**6, 10**6), check_invariants=False)
    torch.save({"edge_index": torch.tensor(EDGES), "y": torch.arange(6), "other": big}, tmp_path / "g.pt")
    assert read_graph(str(tmp_path / "g.pt")).num_nodes == 6


def test_zeros_that_a_matrix_holds_are_no_edges(tmp_path: Path) -> None:
    matrix = adjacency()
    matrix.data[0] = 0
    np.savez(tmp_path / "g.npz", **csr("adj", matrix))
    assert read_graph(str(tmp_path / "g.npz")).edge_index.size(1) == 4
