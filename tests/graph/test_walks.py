"""Walks go along edges with the probabilities that p and q say, whatever batch they are drawn in."""

from collections import Counter
from itertools import pairwise

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch_geometric.utils import to_undirected

from progcl import InputError
from progcl.data.synthetic import csbm
from progcl.graph.walks import RandomWalker, WalkLoader

DATA = csbm(nodes=300, degree=4, seed=0)
EDGES = set(map(tuple, DATA.edge_index.T.tolist()))
DEGREE = torch.bincount(DATA.edge_index[0], minlength=300)
NEXT_TO_ONE = 1 + 1e-9  # takes the path of second order
# A triangle 0-1-2, a hub 2 and a path from it to the leaf 6; node 7 has a self-loop alone
SMALL = to_undirected(torch.tensor([[0, 0, 1, 2, 2, 3, 4, 5, 7], [1, 2, 2, 3, 4, 4, 5, 6, 7]]))
NEIGHBORS = {0: [1, 2], 1: [0, 2], 2: [0, 1, 3, 4], 3: [2, 4], 4: [2, 3, 5], 5: [4, 6], 6: [5]}


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4), (4, 0.25), (20, 50)])
def test_every_step_is_an_edge(p: float, q: float) -> None:
    starts = DEGREE.nonzero().flatten()
    walks = RandomWalker(DATA.edge_index, 300, p, q).walk(starts, 12, epoch=1)
    assert walks.shape == (len(starts), 12)
    assert torch.equal(walks[:, 0], starts)
    assert {(int(a), int(b)) for walk in walks for a, b in pairwise(walk)} <= EDGES


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4)])
def test_a_walk_depends_on_seed_epoch_and_start_alone(p: float, q: float) -> None:
    walker, nodes = RandomWalker(DATA.edge_index, 300, p, q, seed=3), torch.arange(300)
    walks = walker.walk(nodes, 10, epoch=2)
    some = torch.tensor([250, 7, 7, 31])
    assert torch.equal(walker.walk(some, 10, epoch=2), walks[some])
    assert torch.equal(walker.walk(nodes, 6, epoch=2), walks[:, :6])
    assert not torch.equal(walker.walk(nodes, 10, epoch=3), walks)
    assert not torch.equal(RandomWalker(DATA.edge_index, 300, p, q, seed=4).walk(nodes, 10, epoch=2), walks)


def exact_probabilities(before: int, node: int, p: float, q: float) -> dict[int, float]:
    """Straight from the paper's definition."""
    weights = {x: 1 / p if x == before else 1 if x in NEIGHBORS[before] else 1 / q for x in NEIGHBORS[node]}
    return {x: weight / sum(weights.values()) for x, weight in weights.items()}


def count_transitions(p: float, q: float, copies: int = 800) -> Counter[tuple[int, ...]]:
    """Of walks in as many copies of the graph."""
    offset = 8 * torch.arange(copies)[:, None, None]
    walker = RandomWalker((SMALL + offset).transpose(0, 1).reshape(2, -1), 8 * copies, p, q)
    walks = walker.walk(torch.arange(8 * copies), 40, epoch=1) % 8
    return Counter(map(tuple, walks.unfold(1, 3, 1).reshape(-1, 3).tolist()))


@pytest.mark.parametrize(("p", "q"), [(1, 1), (NEXT_TO_ONE, 1), (0.25, 4), (4, 0.25), (0.5, 0.5), (3, 3)])
def test_transitions_have_their_probabilities(p: float, q: float) -> None:
    counts, statistic, freedom = count_transitions(p, q), 0.0, 0
    for before in NEIGHBORS:
        for node in NEIGHBORS[before]:
            exact = exact_probabilities(before, node, p, q)
            found = {x: counts[before, node, x] for x in exact}
            expected = {x: probability * sum(found.values()) for x, probability in exact.items()}
            statistic += sum((found[x] - expected[x]) ** 2 / expected[x] for x in exact)
            freedom += len(exact) - 1
    assert stats.chi2.sf(statistic, freedom) > 1e-3


def test_with_p_and_q_of_one_the_walks_are_those_of_first_order() -> None:
    first, second = RandomWalker(DATA.edge_index, 300), RandomWalker(DATA.edge_index, 300, p=NEXT_TO_ONE)
    assert second.is_second_order
    assert not first.is_second_order
    nodes = torch.arange(300)
    assert torch.equal(first.walk(nodes, 20, epoch=1), second.walk(nodes, 20, epoch=1))


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4)])
def test_a_walk_stays_at_a_node_without_neighbors(p: float, q: float) -> None:
    """A self-loop is no neighbor."""
    walks = RandomWalker(SMALL, 9, p, q).walk(torch.tensor([7, 8]), 5, epoch=1)
    assert walks.tolist() == [[7] * 5, [8] * 5]


def test_a_leaf_has_no_choice_to_reject(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its one neighbor is taken at once, however improbable the way back is elsewhere."""
    calls = []
    propose = RandomWalker._propose

    def count(self: RandomWalker, nodes: Tensor, starts: Tensor, key: int, trial: int) -> Tensor:
        calls.append(trial)
        return propose(self, nodes, starts, key, trial)

    monkeypatch.setattr(RandomWalker, "_propose", count)
    walker = RandomWalker(torch.tensor([[0, 1], [1, 0]]), 2, p=1000.0, q=1.0)
    assert walker.walk(torch.tensor([0, 1]), 6, epoch=1).tolist() == [[0, 1] * 3, [1, 0] * 3]
    assert calls == [0] * 5


def gather(loader: WalkLoader, epoch: int) -> tuple[Tensor, Tensor, Tensor]:
    """Start nodes, walks and noise of an epoch, sorted by start node."""
    batches = list(loader.batches(epoch))
    assert len(batches) == loader.steps
    assert all(len(batch.seeds) <= loader.size for batch in batches)
    seeds = torch.cat([batch.seeds for batch in batches])
    walks, noise = (torch.cat([getattr(batch, name) for batch in batches]) for name in ("walks", "noise"))
    order = seeds.argsort()
    return seeds[order], walks[order], noise[order]


def test_batches_hold_one_walk_from_every_node_with_neighbors_whatever_their_size() -> None:
    walker = RandomWalker(DATA.edge_index, 300, p=0.5)
    small, large = (gather(WalkLoader(walker, 8, 5, size), epoch=4) for size in (3, 70))
    for one, other in zip(small, large, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(small[0], DEGREE.nonzero().flatten())
    assert len(small[0]) < 300
    assert torch.equal(small[1], walker.walk(small[0], 8, epoch=4))


def test_batches_are_shuffled_anew_and_can_be_fewer() -> None:
    loader = WalkLoader(RandomWalker(DATA.edge_index, 300), 8, 5, size=20, steps=3)
    first, second = ([batch.seeds.tolist() for batch in loader.batches(epoch)] for epoch in (1, 2))
    assert first != second
    assert [len(seeds) for seeds in first] == [20, 20, 20]


def test_noise_is_drawn_by_the_degree_to_the_power_of_three_quarters() -> None:
    loader = WalkLoader(RandomWalker(SMALL, 9), 4, 1000, size=7)
    noise = torch.cat([gather(loader, epoch)[2] for epoch in range(20)])
    found = torch.bincount(noise.flatten(), minlength=9)
    assert found[7:].tolist() == [0, 0]
    weights = torch.tensor([len(NEIGHBORS[node]) for node in range(7)]).double() ** 0.75
    expected = weights / weights.sum() * noise.numel()
    assert stats.chisquare(found[:7].numpy(), expected.numpy()).pvalue > 1e-3


def test_a_graph_without_edges_is_refused() -> None:
    with pytest.raises(InputError, match="no edges to walk along"):
        WalkLoader(RandomWalker(torch.empty(2, 0, dtype=torch.long), 5), 4, 3, size=2)
