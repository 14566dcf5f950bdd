"""Sparse features are the same as dense ones, wherever they are read."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.config.load import load_config
from progcl.data.datasets import load_data
from progcl.data.homophily import feature_similarity
from progcl.data.prepare import fingerprint, normalize_features, prepare
from progcl.data.rows import (
    build_csr,
    column_ranges,
    from_scipy,
    is_sparse,
    make_dense,
    split_rows,
    take_rows,
    to_scipy,
)
from progcl.data.summary import summarize
from progcl.embed import embed
from progcl.errors import InputError
from progcl.evaluation.health import RAW
from progcl.evaluation.probe import linear_probe
from progcl.graph.hop_features import project, svd_directions
from progcl.training.memory import GraphSize, estimate_memory
from progcl.training.trainer import Trainer

NODES, FEATURES = 240, 2100  # more columns than those whose products are formed


def make_csr(x: Tensor) -> Tensor:
    return build_csr((x != 0).sum(dim=1), x.nonzero()[:, 1], x[x != 0].double(), x.size(1))


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("progcl.data.rows.MAX_DENSE_BYTES", 1000)
    monkeypatch.setattr("progcl.data.rows.ROWS_PER_CHUNK", 50)
    monkeypatch.setattr("progcl.data.prepare.ROWS_PER_CHUNK", 50)


def make_graph(nodes: int = NODES) -> tuple[scipy.sparse.csr_matrix, Data]:
    """Words of two topics, linked inside a topic; and the same as a prepared graph with dense features."""
    rng = np.random.default_rng(0)
    topic = np.arange(nodes) % 2
    words = rng.random((nodes, FEATURES)) < 0.01 + 0.01 * (topic[:, None] == np.arange(FEATURES) % 2)
    x = scipy.sparse.csr_matrix(words * rng.integers(1, 4, words.shape), dtype=np.float32)
    source = np.repeat(np.arange(nodes), 4)
    target = (source + 2 * rng.integers(1, nodes // 2, len(source))) % nodes
    edges, y = torch.from_numpy(np.stack([source, target])), torch.from_numpy(topic)
    return x, Data(x=torch.from_numpy(x.toarray()), edge_index=edges, y=y)


@pytest.fixture
def graphs() -> tuple[Data, Data]:
    matrix, data = make_graph()
    return prepare(Data(x=from_scipy(matrix), edge_index=data.edge_index, y=data.y)), prepare(data)


def test_features_stay_sparse_if_they_are_wide_and_mostly_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, _ = make_graph()
    assert is_sparse(from_scipy(matrix))
    assert from_scipy(matrix).dtype == torch.float32
    assert not is_sparse(from_scipy(scipy.sparse.csr_matrix(np.ones((40, 40)))))
    monkeypatch.setattr("progcl.data.rows.MAX_DENSE_BYTES", 2**27)
    assert torch.equal(from_scipy(matrix), torch.from_numpy(matrix.toarray()))


def test_duplicate_entries_are_added_up() -> None:
    matrix = scipy.sparse.csr_matrix((np.ones(3), [5, 5, 7], [0, 3]), (1, FEATURES))
    assert from_scipy(matrix).to_dense()[0, [5, 7]].tolist() == [2.0, 1.0]


@pytest.mark.parametrize("convert", [torch.Tensor.to_sparse_coo, torch.Tensor.to_sparse_csc, make_csr])
def test_any_layout_of_torch_is_taken(convert: Callable[[Tensor], Tensor], graphs: tuple[Data, Data]) -> None:
    sparse, dense = graphs
    data = prepare(Data(x=convert(dense.x), edge_index=dense.edge_index))
    assert is_sparse(data.x)
    assert torch.equal(data.x.to_dense(), sparse.x.to_dense())


def test_a_matrix_of_scipy_is_taken() -> None:
    matrix, data = make_graph()
    data.x = matrix
    assert is_sparse(prepare(data).x)


def test_rows_are_those_of_the_dense_matrix(graphs: tuple[Data, Data]) -> None:
    sparse, dense = graphs
    assert torch.equal(torch.cat(list(split_rows(sparse.x, 50))), dense.x)
    index = torch.tensor([3, 0, 3])
    assert torch.equal(take_rows(sparse.x, index), dense.x[index])
    assert torch.equal(make_dense(sparse).x, dense.x)
    assert is_sparse(sparse.x)
    assert make_dense(dense) is dense
    assert np.array_equal(to_scipy(sparse.x).toarray(), dense.x.numpy())
    for found, expected in zip(column_ranges(sparse.x), (dense.x.amin(0), dense.x.amax(0)), strict=True):
        assert torch.equal(found, expected)


def test_prepared_graphs_are_described_alike(graphs: tuple[Data, Data]) -> None:
    sparse, dense = graphs
    assert sparse.remarks == dense.remarks
    assert fingerprint(sparse) == fingerprint(dense)
    assert summarize(sparse) == summarize(dense)
    assert feature_similarity(sparse.edge_index, sparse.x) == feature_similarity(dense.edge_index, dense.x)
    scaled = normalize_features(sparse).x
    assert is_sparse(scaled)
    assert torch.allclose(scaled.to_dense(), normalize_features(dense).x)


def test_a_value_that_is_not_finite_is_named() -> None:
    matrix, data = make_graph()
    matrix.data[matrix.indptr[70]] = np.nan
    column = int(matrix.indices[matrix.indptr[70]])
    data.x = matrix
    with pytest.raises(InputError, match=f"nan of node `70` in column {column + 1}"):
        prepare(data)


@pytest.mark.parametrize("rank", [16, FEATURES])
def test_projections_are_the_same(rank: int, graphs: tuple[Data, Data]) -> None:
    sparse, dense = graphs
    directions = svd_directions(dense.x, rank)
    assert torch.allclose(svd_directions(sparse.x, rank), directions, atol=1e-4)
    assert torch.allclose(project(sparse.x, directions), project(dense.x, directions), atol=1e-6)


@pytest.mark.parametrize("protocol", ["clean", "gca"])
def test_sparse_features_score_as_dense_ones(protocol: str, graphs: tuple[Data, Data]) -> None:
    scores = [linear_probe(data.x, data, protocol, splits=1).accuracies for data in graphs]
    assert scores[0] == pytest.approx(scores[1])


def test_training_on_a_hop_table_keeps_them_sparse_and_all_else_makes_them_dense(graphs: tuple[Data, Data]) -> None:
    sparse, dense = graphs
    small = {"encoder.hidden": 16, "encoder.projection": 8, "train.epochs": 2, "probe.protocol": "none"}
    preset = load_config("embed", {**small, "batch.size": None, "batch.steps": None})
    trainers = [Trainer(preset, data) for data in graphs]
    assert is_sparse(trainers[0].data.x)
    vectors = [(list(trainer.run(2)), trainer.embed())[1] for trainer in trainers]
    assert torch.allclose(vectors[0], vectors[1], atol=1e-3)
    grace = load_config("csbm", {**small, "method.name": "grace"})
    assert torch.equal(
        *[(list(trainer.run(2)), trainer.embed())[1] for trainer in (Trainer(grace, sparse), Trainer(grace, dense))]
    )


def test_the_estimate_of_memory_counts_entries_unless_they_become_dense(graphs: tuple[Data, Data]) -> None:
    sparse, dense = graphs
    table, full = load_config("embed"), load_config("csbm", {"method.name": "grace"})
    assert (
        estimate_memory(table, GraphSize.of(sparse))["output"] < estimate_memory(table, GraphSize.of(dense))["output"]
    )
    as_entries, as_rows = (estimate_memory(full, GraphSize.of(sparse), held=held)["training"] for held in (0.0, 1e6))
    assert as_entries == pytest.approx(as_rows - 1e6)
    assert as_entries > estimate_memory(full, GraphSize.of(dense), held=0.0)["training"]


def test_a_file_with_a_sparse_matrix_is_embedded_and_read_again_alike(tmp_path: Path) -> None:
    matrix, data = make_graph()
    source, target = data.edge_index.numpy()
    adjacency = scipy.sparse.csr_matrix((np.ones(len(source)), (source, target)), (NODES, NODES))
    arrays = {"adj": adjacency, "attr": matrix}
    fields = {
        f"{name}_{key}": getattr(each, key) for name, each in arrays.items() for key in ("data", "indices", "indptr")
    }
    shapes = {f"{name}_shape": each.shape for name, each in arrays.items()}
    np.savez(tmp_path / "graph.npz", **fields, **shapes, labels=data.y.numpy())
    changes = {"encoder.hidden": 16, "encoder.projection": 8, "train.epochs": 2, "output.structure": 4}
    result = embed(str(tmp_path / "graph.npz"), tmp_path / "run", overrides=changes, progress=False)
    assert is_sparse(load_data(result.config.data).x)
    assert len(result.embeddings) == NODES
    assert (tmp_path / "run" / "report.html").exists()
    assert RAW in result.beside
