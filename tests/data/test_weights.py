"""Weights of edges from every source that has them, and errors that name what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse
import torch
from safetensors.numpy import save_file
from torch_geometric.data import Data

from progcl import InputError, ProGCL
from progcl.data.formats import read_graph
from progcl.data.frames import read_edge_value
from progcl.data.join import join
from progcl.data.networks import from_networkx
from progcl.data.prepare import prepare
from progcl.errors import ProgclWarning
from support.graphs import EDGES, X

WEIGHTS = [0.5, 2.0, 3.0, 1.0, 4.0]
ROWS = [(f"n{a}", f"n{b}", w) for (a, b), w in zip(EDGES.T.tolist(), WEIGHTS, strict=True)]


def matrix() -> scipy.sparse.csr_matrix:
    return scipy.sparse.csr_matrix((WEIGHTS, EDGES), (4, 4))


def network() -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(f"n{node}" for node in range(4))
    graph.add_weighted_edges_from(ROWS, weight="cost")
    return graph


def text(delimiter: str, *header: str) -> Callable[[Path], object]:
    lines = [delimiter.join(map(str, row)) for row in [header, *ROWS] if row]
    return lambda path: path.write_text("\n".join(lines) + "\n")


SOURCES: dict[str, tuple[Callable[[Path], Any], str | None]] = {  # how to write it, and the name of the weights
    "g.csv": (text(",", "source", "target", "cost"), "cost"),
    "g.tsv": (text("\t", "who", "whom", "Cost"), "cost"),
    "g.txt": (text(" "), "3"),
    "g.edgelist": (text(" "), "3"),
    "attributes.edgelist": (lambda path: networkx.write_edgelist(network(), path), "cost"),
    "g.parquet": (
        lambda path: pyarrow.parquet.write_table(
            pyarrow.table({"cost": WEIGHTS, "src": EDGES[0], "dst": EDGES[1]}),
            path,
        ),
        "cost",
    ),
    "g.npz": (lambda path: np.savez(path, edge_index=EDGES, x=X, edge_weight=WEIGHTS), None),
    "named.npz": (lambda path: np.savez(path, edges=EDGES.T, cost=np.array(WEIGHTS)[:, None]), "cost"),
    "csr.npz": (lambda path: scipy.sparse.save_npz(path, matrix()), None),
    "g.mtx": (lambda path: scipy.io.mmwrite(path, matrix()), None),
    "g.safetensors": (lambda path: save_file({"edge_index": EDGES, "edge_weight": np.array(WEIGHTS)}, path), None),
    "g.pt": (
        lambda path: torch.save(Data(edge_index=torch.tensor(EDGES), edge_weight=torch.tensor(WEIGHTS)), path),
        None,
    ),
    "attr.pt": (
        lambda path: torch.save(Data(edge_index=torch.tensor(EDGES), edge_attr=torch.tensor(WEIGHTS)[:, None]), path),
        "edge_attr",
    ),
    "g.graphml": (lambda path: networkx.write_graphml(network(), path), "cost"),
    "g.gexf": (lambda path: networkx.write_gexf(network(), path), "cost"),
    "g.gml": (lambda path: networkx.write_gml(network(), path), "cost"),
    "g.json": (lambda path: path.write_text(json.dumps(networkx.node_link_data(network(), edges="links"))), "cost"),
}
EXPECTED = {tuple(edge): weight for edge, weight in zip(EDGES.T.tolist(), WEIGHTS, strict=True)}


def weighted_pairs(data: Data) -> dict[tuple[int, int], float]:
    """Weights by pairs of nodes, whose numbers are the last character of their names."""
    number = [int(name[-1]) for name in data.ids]
    pairs = ((number[a], number[b]) for a, b in data.edge_index.T.tolist())
    return dict(zip(pairs, data.edge_weight.tolist(), strict=True))


@pytest.mark.parametrize("file", SOURCES)
def test_every_source_gives_the_same_weights(file: str, tmp_path: Path) -> None:
    write, name = SOURCES[file]
    write(tmp_path / file)
    assert weighted_pairs(read_graph(str(tmp_path / file), weight=name)) == EXPECTED
    assert read_graph(str(tmp_path / file), weight="none").get("edge_weight") is None
    unasked = read_graph(str(tmp_path / file))
    assert (unasked.get("edge_weight") is None) == (name is not None)
    if name is not None and file not in ("named.npz", "attributes.edgelist"):  # an array of any name is not looked for
        assert any("not used: --weight" in remark for remark in unasked.remarks)


def test_every_value_in_python_gives_the_same_weights() -> None:
    frame = pandas.DataFrame(ROWS, columns=["source", "target", "cost"])
    values = {
        "pandas": join(read_edge_value(frame, weight="cost")),
        "scipy": join(read_edge_value(matrix())),
        "numpy": join(read_edge_value(matrix().toarray())),
        "networkx": join(from_networkx(network(), "cost")),
    }
    for name, value in values.items():
        assert weighted_pairs(value.to_data()) == EXPECTED, name
    assert join(read_edge_value(matrix(), weight="none")).weights is None
    assert join(read_edge_value(matrix() != 0)).weights is None
    assert "`cost`" in join(read_edge_value(frame)).remarks[0]
    assert "`cost`" in join(from_networkx(network())).remarks[0]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("-1", "line 4 holds -1 in `cost`: a weight is negative"),
        ("", "line 4 holds nan in `cost`: a weight is missing"),
        ("nan", "line 4 holds nan in `cost`: a weight is missing"),
        ("inf", "line 4 holds inf in `cost`: a weight is too large"),
        ("much", "line 4 holds `much` in `cost`, which is no weight"),
    ],
)
def test_a_wrong_weight_in_a_table_is_named_by_its_line(cell: str, message: str, tmp_path: Path) -> None:
    rows = ["source,target,cost", "a,b,1", "b,c,2", f"c,a,{cell}"]
    (tmp_path / "g.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError) as error:
        read_graph(str(tmp_path / "g.csv"), weight="cost")
    assert message in str(error.value)
    assert "hint: weights are finite numbers from 0" in str(error.value)


def test_wrong_names_and_shapes_are_refused(tmp_path: Path) -> None:
    text(",", "source", "target", "cost")(tmp_path / "g.csv")
    with pytest.raises(InputError, match=r"no column `cots`, which --weight names\n\nhint: did you mean `cost`"):
        read_graph(str(tmp_path / "g.csv"), weight="cots")
    np.savez(tmp_path / "g.npz", edge_index=EDGES, edge_weight=[1.0, 2.0])
    with pytest.raises(InputError, match=r"`edge_weight` is \[2\], there are 5 edges"):
        read_graph(str(tmp_path / "g.npz"))
    np.save(tmp_path / "g.npy", EDGES)
    with pytest.raises(InputError, match="has no weights by the name `cost`"):
        read_graph(str(tmp_path / "g.npy"), weight="cost")
    networkx.write_graphml(network(), tmp_path / "g.graphml")
    with pytest.raises(InputError, match="no edge has the attribute `cots`"):
        read_graph(str(tmp_path / "g.graphml"), weight="cots")
    with pytest.raises(InputError, match="edge between `1` and `2` has weight -2"):
        join(read_edge_value(scipy.sparse.csr_matrix(([1.0, -2.0], ([0, 1], [1, 2])), (3, 3))))
    networkx.write_edgelist(network(), tmp_path / "g.edgelist")
    with pytest.raises(InputError, match=r"no edge has the attribute `cots`.*\n\nhint: did you mean `cost`"):
        read_graph(str(tmp_path / "g.edgelist"), weight="cots")
    graph = network()
    graph.add_edge("n1", "n3")
    with pytest.raises(InputError, match="a weight is missing"):
        from_networkx(graph, "cost")
    graph.edges["n1", "n3"]["cost"] = {"low": 1}
    with pytest.raises(InputError, match="`cost` of edges is neither number nor text"):
        from_networkx(graph, "cost")


def test_weights_of_python_are_an_array_of_numbers() -> None:
    data = Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES))
    for weight, message in (
        (matrix(), "`edge_weight` is a sparse matrix"),
        (np.array(list("abcde")), "weights of type <U1 in `edge_weight`"),
    ):
        data.edge_weight = weight
        with pytest.raises(InputError, match=message):
            prepare(data)


def test_attributes_that_are_no_dict_hold_no_weights(tmp_path: Path) -> None:
    (tmp_path / "g.edgelist").write_text("a b {'cost': 2}\nb c {'cost':\nc a 7\n")
    with pytest.raises(InputError, match="`cost`"):
        read_graph(str(tmp_path / "g.edgelist"), weight="cost")


def test_a_first_line_that_is_a_header_after_all_has_no_weight(tmp_path: Path) -> None:
    rows = ["package,depends_on,cost", *(f"p{i},p{i + 1},{i}" for i in range(1, 20))]
    (tmp_path / "g.csv").write_text("\n".join(rows) + "\n")
    for name in ("cost", "3"):
        (tmp_path / "g.csv").write_text("\n".join(rows if name == "cost" else rows[1:]) + "\n")
        data = read_graph(str(tmp_path / "g.csv"), weight=name)
        assert data.edge_weight.tolist() == list(range(1, 20))


def test_the_estimator_takes_weights_from_everywhere() -> None:
    data = Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES), edge_attr=torch.tensor(WEIGHTS))
    options = {"output.blocks": "untrained", "hops.dim": None}

    def embed(value: Any, **more: Any) -> Any:
        return ProGCL(random_state=0, options=options, **more).fit_transform(value)

    weighted = embed(data, weight="edge_attr")
    assert np.array_equal(embed((matrix(), X)), weighted)
    with pytest.warns(ProgclWarning, match="`edge_attr` is not used"):
        plain = ProGCL(random_state=0, options=options).fit(data)
    assert "--weight edge_attr" in plain.remarks_[0]
    assert np.array_equal(embed((matrix(), X), weight="none"), plain.embedding_)
    assert not np.array_equal(plain.embedding_, weighted)
    with pytest.raises(InputError, match="no attribute `edge_atr`"):
        embed(data, weight="edge_atr")
