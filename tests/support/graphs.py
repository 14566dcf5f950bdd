"""Small graphs as files of users hold them."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from torch_geometric.data import Data

from progcl.data.synthetic import csbm

EDGES = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = np.array([0, 0, 1, 1])
NAMES = ["ann", "bob", "cid", "dan"]
PAIRS = set(map(tuple, EDGES.T.tolist()))
USER_GRAPH = csbm(nodes=240, classes=3, degree=8, features=6, signal=3)


def csr(prefix: str, matrix: scipy.sparse.csr_matrix) -> dict[str, Any]:
    """The arrays of a matrix, named as in the files of published graphs."""
    return {f"{prefix}_{key}": np.asarray(getattr(matrix, key)) for key in ("data", "indices", "indptr", "shape")}


def adjacency() -> scipy.sparse.csr_matrix:
    """Its adjacency matrix."""
    return scipy.sparse.csr_matrix((np.ones(5), EDGES), (4, 4))


def pairs(data: Data) -> set[tuple[int, int]]:
    """The edges of a graph that was read."""
    return set(map(tuple, data.edge_index.T.tolist()))


def write_files(tmp_path: Path, **files: str) -> list[str]:
    """Write texts to files, named with `_` for the dot; return their paths."""
    for name, text in files.items():
        (tmp_path / name.replace("_", ".")).write_text(text)
    return [str(tmp_path / name.replace("_", ".")) for name in files]


def write_user_graph(folder: Path) -> None:
    """An edge list with names, a table of features, one of classes, and the same as one .npz."""
    edges = [(a, b) for a, b in USER_GRAPH.edge_index.T.tolist() if a < b]
    (folder / "g.csv").write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in edges))
    rows = [f"n{node}," + ",".join(f"{value:.4f}" for value in row) for node, row in enumerate(USER_GRAPH.x.tolist())]
    (folder / "x.csv").write_text("\n".join(rows) + "\n")
    classes = "".join(f"n{node},kind {kind}\n" for node, kind in enumerate(USER_GRAPH.y))
    (folder / "y.csv").write_text("id,class\n" + classes)
    np.savez(
        folder / "g.npz",
        edge_index=USER_GRAPH.edge_index.numpy(),
        x=USER_GRAPH.x.numpy(),
        y=USER_GRAPH.y.numpy(),
    )


def write_grown_graph(folder: Path, nodes: int = 190) -> None:
    """Beside a user's graph, old.csv and oldx.csv with its first nodes and the edges between them."""

    def is_old(name: str) -> bool:
        return not name.startswith("n") or int(name[1:]) < nodes

    edges = (folder / "g.csv").read_text().splitlines()
    kept = [line for line in edges if not line[1].isdecimal() or all(map(is_old, line.split(",")))]
    (folder / "old.csv").write_text("\n".join(kept) + "\n")
    rows = (folder / "x.csv").read_text().splitlines()
    (folder / "oldx.csv").write_text(
        "\n".join([rows[0], *(row for row in rows[1:] if is_old(row.split(",")[0]))]) + "\n"
    )
