"""Links that are kept from everything: none is left in the graph, and no node becomes isolated."""

import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError, hold_out_links
from progcl.data.prepare import prepare
from progcl.data.synthetic import csbm


def undirected(edges: torch.Tensor) -> set[tuple[int, int]]:
    return {(min(pair), max(pair)) for pair in map(tuple, edges.T.tolist())}


def test_a_tenth_is_held_out_and_nothing_of_it_is_left() -> None:
    data = csbm(nodes=300, degree=12)
    kept = hold_out_links(data)
    every, left, heldout = (undirected(each) for each in (data.edge_index, kept.edge_index, kept.heldout))
    assert left | heldout == every
    assert not left & heldout
    assert len(heldout) == kept.heldout.size(1) == round(0.1 * len(every))
    assert "heldout" not in data
    assert torch.equal(kept.x, data.x)
    assert kept.remarks[-1].startswith(f"{len(heldout)} of {len(every):,} edges are kept from everything")


def test_every_node_keeps_an_edge() -> None:
    data = csbm(nodes=400, degree=2.5, seed=3)
    before = torch.bincount(data.edge_index[0], minlength=400)
    kept = hold_out_links(data, 0.9)
    after = torch.bincount(kept.edge_index[0], minlength=400)
    assert kept.heldout.size(1) > 100
    assert torch.equal(before > 0, after > 0)


def test_the_choice_depends_on_the_seed_and_not_on_the_order_or_direction_of_edges() -> None:
    data = csbm(nodes=200)
    one_way = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    turned = Data(edge_index=one_way.flip(1).flip(0), num_nodes=200)
    doubled = Data(edge_index=torch.cat([one_way, one_way, torch.tensor([[5], [5]])], dim=1), num_nodes=200)
    expected = undirected(hold_out_links(data).heldout)
    assert undirected(hold_out_links(turned).heldout) == expected
    kept = hold_out_links(doubled)
    assert undirected(kept.heldout) == expected
    assert kept.edge_index.size(1) == 2 * (one_way.size(1) - len(expected)) + 1
    assert undirected(hold_out_links(data, seed=1).heldout) != expected


def test_attributes_of_edges_go_with_them() -> None:
    data = csbm(nodes=100)
    data.edge_weight = data.edge_index.sum(dim=0).float()
    data.ids = ["x"] * data.num_edges  # as long as the edges, and none of theirs
    kept = hold_out_links(data)
    assert kept.ids == data.ids
    assert torch.equal(kept.edge_weight, kept.edge_index.sum(dim=0).float())


def test_structural_features_do_not_see_held_out_links() -> None:
    data = csbm(nodes=120)
    kept = hold_out_links(Data(edge_index=data.edge_index, num_nodes=120))
    alone = prepare(Data(edge_index=kept.edge_index, num_nodes=120))
    assert torch.equal(prepare(kept).x, alone.x)
    assert not torch.equal(alone.x, prepare(Data(edge_index=data.edge_index, num_nodes=120)).x)


def test_where_nothing_can_be_held_out() -> None:
    star = Data(edge_index=torch.tensor([[0, 0, 0], [1, 2, 3]]), num_nodes=4)
    with pytest.raises(InputError, match="no link of 3 can be held out"):
        hold_out_links(star)
    triangle = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    with pytest.raises(InputError, match="joins any two"):
        hold_out_links(triangle)
    with pytest.raises(InputError, match=r"in \[0, 0.9\]"):
        hold_out_links(star, 1.5)
