"""Tables and arrays in Python: edges are told from features."""

from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import scipy.sparse
import torch

from progcl.data.frames import is_edges, looks_like_adjacency, read_edge_value, read_node_table
from progcl.data.join import join
from support.graphs import EDGES, NAMES, X

EDGE_FRAME = pandas.DataFrame({"w": np.ones(5), "src": np.array(NAMES)[EDGES[0]], "dst": np.array(NAMES)[EDGES[1]]})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (EDGE_FRAME, True),
        (pandas.DataFrame({"a": ["x", "y"], "b": ["y", "z"]}), True),
        (pandas.DataFrame({"a": [0, 1], "b": [1, 2]}), True),
        (pandas.DataFrame({"age": [0.5, 1.5], "size": [1, 2]}), False),
        (pandas.DataFrame(X), False),
        (pyarrow.table({"source": [1, 2], "target": [2, 3], "w": [0.5, 0.5]}), True),
        (EDGES, True),
        (EDGES.T, True),
        (torch.tensor(EDGES), True),
        (EDGES.astype(float), False),
        (EDGES - 1, False),
        (X, False),
        (scipy.sparse.csr_matrix(X), False),
        ([[1, 2], [3, 4]], False),
        ([[1, 2], [3, 4], [0, 1]], True),
        ([("a", "b"), ("b", "c")], True),
        ([[0.5, 1], [3, 4], [0, 1]], False),
        (np.array([["a", "b"], ["b", "c"]], dtype=object), True),
        (np.array([["a", "b", "c"]]), False),
        (np.array([["a", 1], ["b", 2]], dtype=object), False),
    ],
)
def test_what_looks_like_edges(value: Any, expected: bool) -> None:
    assert is_edges(value) is expected


@pytest.mark.parametrize("value", [EDGE_FRAME, pyarrow.Table.from_pandas(EDGE_FRAME)])
def test_a_table_of_edges_is_a_graph(value: Any) -> None:
    graph = read_edge_value(value)
    assert graph.names == NAMES
    assert np.array_equal(graph.edges, EDGES)


def test_features_are_joined_by_the_index_or_by_a_column() -> None:
    order = [2, 0, 3, 1]
    names = [NAMES[row] for row in order]
    by_index = pandas.DataFrame({"age": X[order, 0], "city": ["x", "y", "x", "y"]}, index=names)
    by_column = by_index.reset_index(names="id")
    for frame in (by_index, by_column, pyarrow.Table.from_pandas(by_column)):
        data = join(read_edge_value(EDGE_FRAME), read_node_table(frame))
        assert data.ids == names
        assert data.x is not None
        assert data.x.tolist() == [[X[row, 0], 1 - place % 2, place % 2] for place, row in enumerate(order)]


def test_missing_values_and_dates_of_pandas() -> None:
    frame = pandas.DataFrame(
        {
            "age": pandas.array([1, None, 3, 4], dtype="Int64"),
            "day": pandas.to_datetime(["2020-01-01", None, "2020-01-02", "2020-01-03"]),
            "city": ["x", None, "x", "x"],
        },
        index=NAMES,
    )
    data = join(read_edge_value(EDGE_FRAME), read_node_table(frame))
    assert data.x is not None
    assert data.x.shape == (4, 3)
    assert np.isfinite(data.x).all()
    assert any("column `age` 1, column `day` 1" in remark for remark in data.remarks)


def test_pairs_of_names_are_edges() -> None:
    data = join(read_edge_value(np.array([("b", "a"), ("a", "c"), ("c", "b")])))
    assert data.ids == ["b", "a", "c"]
    assert data.edges.tolist() == [[0, 1, 2], [1, 2, 0]]


def test_a_matrix_that_may_hold_edges() -> None:
    ring = np.roll(np.eye(5), 1, axis=1)
    assert looks_like_adjacency(ring + ring.T)
    for other in (ring, np.eye(5), np.zeros((5, 5)), X, pandas.DataFrame(ring + ring.T)):
        assert not looks_like_adjacency(other)
