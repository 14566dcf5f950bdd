"""Graphs of networkx and of others that write node-link JSON."""

import json
from pathlib import Path

import networkx
import pytest

from progcl import InputError
from progcl.data.formats import read_graph
from progcl.data.networks import from_networkx


def test_links_of_numbers_between_named_nodes(tmp_path: Path) -> None:
    nodes = [{"name": name, "group": group} for name, group in zip("abc", (1, 1, 2), strict=True)]
    links = [{"source": 0, "target": 1, "value": 2}, {"source": 1, "target": 2}]
    (tmp_path / "d3.json").write_text(json.dumps({"nodes": nodes, "links": links}))
    data = read_graph(str(tmp_path / "d3.json"))
    assert data.ids == ["a", "b", "c"]
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]
    assert data.x.tolist() == [[1], [1], [2]]


def test_gml_without_labels_is_named_by_ids(tmp_path: Path) -> None:
    (tmp_path / "g.gml").write_text("graph [\n node [ id 7 ]\n node [ id 9 ]\n edge [ source 7 target 9 ]\n]\n")
    assert read_graph(str(tmp_path / "g.gml")).ids == ["7", "9"]


def test_attributes_that_some_nodes_lack_are_missing() -> None:
    graph = networkx.path_graph(3)
    graph.nodes[0]["age"], graph.nodes[2]["age"] = 3, 5
    graph.nodes[1]["picture"] = {"x": 1}
    columns = from_networkx(graph).columns
    assert list(columns) == ["age"]
    assert [None if value != value else value for value in columns["age"]] == [3, None, 5]


def test_lists_of_different_lengths_are_no_features() -> None:
    graph = networkx.path_graph(3)
    for node in range(3):
        graph.nodes[node]["path"], graph.nodes[node]["size"] = [0] * node, node
    assert list(from_networkx(graph).columns) == ["size"]


def test_a_table_of_attributes_that_are_nearly_all_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attribute for each of 300 nodes: 90,000 cells, of which 300 hold a value."""
    monkeypatch.setattr("progcl.data.networks.MAX_CELLS", 1000)
    graph = networkx.path_graph(300)
    for node in range(300):
        graph.nodes[node][f"a{node}"] = 1
    with pytest.raises(InputError, match="300 attributes of 300 nodes, of which nearly all are missing"):
        from_networkx(graph)
