"""Sampled edges exist, their number is right, and all neighbors are equally probable."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from progcl import InputError
from progcl.data.synthetic import csbm
from progcl.graph.sampler import NeighborSampler, SampledSubgraph

DATA = csbm(nodes=500, degree=12, seed=0)
EDGES = {(int(a), int(b)) for a, b in DATA.edge_index.T}
DEGREE = torch.bincount(DATA.edge_index[1], minlength=500)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw_batch(replace: bool, fanouts: tuple[int, ...] = (3, 4, 5), seeds: int = 20) -> SampledSubgraph:
    sampler = NeighborSampler(DATA.edge_index, 500, fanouts, replace)
    return sampler.sample(torch.randperm(500, generator=seeded(1))[:seeds], seeded())


@pytest.mark.parametrize("replace", [True, False])
def test_every_edge_exists_and_seeds_come_first(replace: bool) -> None:
    batch = draw_batch(replace)
    assert torch.equal(batch.n_id[:20], torch.randperm(500, generator=seeded(1))[:20])
    assert len(batch.n_id.unique()) == len(batch.n_id)
    for hop in batch.hops:
        source, target = batch.n_id[hop.edge_index]
        assert all((int(a), int(b)) in EDGES for a, b in zip(source, target, strict=True))
    widths = [(hop.num_targets, hop.num_sources) for hop in batch.hops]
    assert [sources for _, sources in widths] == [len(batch.n_id), *(targets for targets, _ in widths[:-1])]
    assert widths[-1][0] == batch.batch_size == 20


@pytest.mark.parametrize("replace", [True, False])
def test_every_node_has_its_number_of_neighbors(replace: bool) -> None:
    batch = draw_batch(replace)
    for hop, fanout in zip(batch.hops, (5, 4, 3), strict=True):
        degree = DEGREE[batch.n_id[: hop.num_targets]]
        expected = torch.where(degree > 0, fanout, 0) if replace else degree.clamp_max(fanout)
        assert torch.equal(hop.rowptr.diff(), expected)
        if not replace:
            pairs = hop.edge_index
            assert pairs.unique(dim=1).size(1) == pairs.size(1)


@pytest.mark.parametrize("replace", [True, False])
def test_neighbors_are_equally_probable(replace: bool) -> None:
    node = int((DEGREE == 12).nonzero()[0])
    sampler = NeighborSampler(DATA.edge_index, 500, (4,), replace)
    generator = seeded()
    counts = np.zeros(500)
    for _ in range(1500):
        batch = sampler.sample(torch.tensor([node]), generator)
        np.add.at(counts, batch.n_id[batch.hops[0].column].numpy(), 1)
    neighbors = DATA.edge_index[0][DATA.edge_index[1] == node].numpy()
    assert counts.sum() == 1500 * 4 == counts[neighbors].sum()
    assert stats.chisquare(counts[neighbors]).pvalue > 0.001


def test_pairs_of_neighbors_are_equally_probable_without_replacement() -> None:
    star = torch.stack([torch.arange(1, 6), torch.zeros(5, dtype=torch.long)])
    sampler = NeighborSampler(star, 6, (2,), replace=False)
    generator = seeded()
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(2000):
        pair = tuple(sorted(sampler.sample(torch.tensor([0]), generator).n_id[1:].tolist()))
        counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 10
    assert stats.chisquare(list(counts.values())).pvalue > 0.001


def test_batches_cover_every_seed_once_and_repeat_with_their_seed() -> None:
    sampler = NeighborSampler(DATA.edge_index, 500, (3, 2))
    seeds = torch.arange(0, 500, 2)
    batches = list(sampler.batches(seeds, 64, seeded()))
    again = list(sampler.batches(seeds, 64, seeded()))
    assert [batch.batch_size for batch in batches] == [64, 64, 64, 58]
    assert torch.equal(torch.cat([batch.n_id[: batch.batch_size] for batch in batches]).sort().values, seeds)
    for one, other in zip(batches, again, strict=True):
        assert torch.equal(one.n_id, other.n_id)
        assert all(torch.equal(a.column, b.column) for a, b in zip(one.hops, other.hops, strict=True))
    in_order = next(sampler.batches(seeds, 64, seeded(), shuffle=False))
    assert torch.equal(in_order.n_id[:64], seeds[:64])


def test_all_neighbors_are_pygs_k_hop_subgraph() -> None:
    from torch_geometric.utils import k_hop_subgraph

    seeds: Tensor = torch.tensor([3, 77, 150])
    batch = NeighborSampler(DATA.edge_index, 500, (500, 500), replace=False).sample(seeds, seeded())
    nodes, edges, _, _ = k_hop_subgraph(seeds, 2, DATA.edge_index)
    assert torch.equal(batch.n_id.sort().values, nodes)
    inner = k_hop_subgraph(seeds, 1, DATA.edge_index)[0]
    expected = {(int(a), int(b)) for a, b in edges.T if int(b) in set(inner.tolist())}
    assert {(int(a), int(b)) for a, b in batch.n_id[batch.edge_index].T} == expected


def test_isolated_nodes_and_bad_input() -> None:
    sampler = NeighborSampler(torch.tensor([[0], [1]]), 4, (2, 2))
    for seeds in ([2, 3], [0, 1]):
        batch = sampler.sample(torch.tensor(seeds), seeded())
        assert batch.n_id.tolist()[:2] == seeds
    with pytest.raises(InputError, match="different seeds"):
        sampler.sample(torch.tensor([1, 1]), seeded())
    assert sampler.sample(torch.tensor([1, 0]), seeded()).n_id.tolist() == [1, 0]
    with pytest.raises(InputError, match="fanouts"):
        NeighborSampler(torch.tensor([[0], [1]]), 2, (0,))


def test_a_walk_goes_to_the_neighbor_with_the_drawn_index() -> None:
    source, target = DATA.edge_index[:, (DATA.edge_index != 7).all(dim=0)]  # node 7 has no neighbors
    draws = torch.randint(2**62, (500, 5), generator=seeded())
    ends = NeighborSampler(torch.stack([source, target]), 500, fanouts=[]).walk(torch.arange(500), draws)
    assert ends[7] == 7
    for start, row in enumerate(draws.tolist()):
        node = start
        for draw in row:
            neighbors = source[target == node].tolist()
            node = neighbors[draw % len(neighbors)] if neighbors else node
        assert ends[start] == node


def test_a_walk_without_any_edge_stays() -> None:
    sampler = NeighborSampler(torch.empty(2, 0, dtype=torch.long), 3, fanouts=[])
    assert sampler.walk(torch.arange(3), torch.ones(3, 2, dtype=torch.long)).tolist() == [0, 1, 2]


def test_induced_edges_are_pygs_subgraph() -> None:
    from torch_geometric.utils import subgraph

    sampler = NeighborSampler(DATA.edge_index, 500, fanouts=[])
    for nodes in (torch.arange(500), torch.tensor([3, 9, 40, 41, 42, 300, 499]), torch.tensor([7])):
        source, target = subgraph(nodes, DATA.edge_index, relabel_nodes=True, num_nodes=500)[0]
        found = {(int(a), int(b)) for a, b in sampler.induced_edges(nodes).T}
        assert found == set(zip(target.tolist(), source.tolist(), strict=True))
        assert len(found) == sampler.induced_edges(nodes).size(1)


def test_fanouts_are_the_paper_s_unless_others_are_given() -> None:
    assert tuple(NeighborSampler(DATA.edge_index, 500).fanouts) == (10, 10, 25)


def test_loops_and_strengths_are_those_of_the_weights() -> None:
    """Node 3 has no edges; a node's loop weighs as much as its edges do on average."""
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
    sampler = NeighborSampler(edges, 4, (2,), edge_weight=torch.tensor([1.0, 1.0, 5.0, 5.0]))
    assert sampler.loop_weight(torch.tensor([3, 2, 0, 1])).tolist() == [1, 5, 3, 1]  # type: ignore[union-attr]
    assert sampler.strength.tolist() == [6, 1, 5, 0]
    plain = NeighborSampler(edges, 4, (2,))
    assert plain.loop_weight(torch.tensor([0, 3])) == 1
    assert plain.strength.tolist() == [2, 1, 1, 0]
