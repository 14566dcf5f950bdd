"""The layout of tiles: every pair of points once, every tile at an offset of its own."""

from collections import Counter
from itertools import product

import pytest
import torch
from torch import Tensor

from progcl.losses.tiles import Layout, Shard, Slot, TileStore, Workspace
from progcl.losses.weights import make_weights
from progcl.miners.base import Plan


@pytest.mark.parametrize("swap_views", [False, True])
@pytest.mark.parametrize(("nodes", "tile"), [(2, 1), (40, 16), (57, 16), (57, 100)])
def test_tiles_cover_every_pair_of_points_once(nodes: int, tile: int, swap_views: bool) -> None:
    layout = Layout(nodes, tile, len(Slot), swap_views)
    pairs: Counter[frozenset[tuple[int, int]]] = Counter()
    for pair in layout.pairs:
        for block in layout.tiles(pair):
            rows, columns = range(nodes)[block.rows], range(nodes)[block.columns]
            for i, k in product(rows, columns):
                if (block.a, i) != (block.b, k) and not (block.is_symmetric and i > k):
                    pairs[frozenset({(block.a, i), (block.b, k)})] += 1
    assert len(pairs) == 2 * nodes * (2 * nodes - 1) // 2
    assert set(pairs.values()) == {1}


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_offsets_fill_each_shard_without_gaps(world_size: int) -> None:
    shards = [Layout(57, 16, 6, position=(rank, world_size)) for rank in range(world_size)]
    assert sorted(pair for layout in shards for pair in layout.pairs) == Layout(57, 16, 6).pairs
    for layout in shards:
        offsets = [layout.offset(*pair, slot) for pair in layout.pairs for slot in range(layout.slots)]
        assert offsets == list(range(0, len(layout.pairs) * layout.pair_elements, layout.side**2))


def test_node_offsets_are_block_offset_plus_position() -> None:
    layout = Layout(40, 16, 4)
    assert [block.stop - block.start for block in layout.blocks] == [16, 16, 8]
    offsets = layout.node_offsets([1000, 2000, 3000], 3, torch.device("cpu"))
    assert offsets.tolist() == [1000 * (node // 16 + 1) + 3 * (node % 16) for node in range(40)]


@pytest.mark.parametrize("stored", [0, 2, 6])
def test_tiles_beyond_the_memory_are_scratch(stored: int) -> None:
    generator = torch.Generator().manual_seed(0)
    z1, z2 = torch.rand(2, 40, 5, generator=generator)
    layout = Layout(40, 16, 4)
    store = TileStore((z1, z2), 0.5, layout, Workspace(0, 16), stored * layout.pair_elements * 4)
    assert store.stored == stored
    assert store.is_complete == (stored == 6)
    for number, pair in enumerate(layout.pairs):
        for tile in layout.tiles(pair):
            sim = store.compute_similarities(tile)
            expected = store.views[tile.a][tile.rows] @ store.views[tile.b][tile.columns].T / 0.5
            torch.testing.assert_close(sim, expected)
            in_store = sim.untyped_storage().data_ptr() == store.flat.untyped_storage().data_ptr()
            assert in_store == (number < stored)


def plan_of(kind: str, nodes: int) -> Plan:
    """Nothing frozen; frozen probabilities; three mixtures of four candidates each."""
    columns = torch.arange(nodes).repeat(4, 1).to(torch.int32)
    return {
        "plain": Plan(),
        "weight": Plan(object(), lambda view, rows, columns: torch.ones(1)),
        "mix": Plan(object(), candidates=(columns, columns), pairs=torch.zeros(2, 3, dtype=torch.long)),
    }[kind]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["plain", "weight", "mix"])
def test_what_is_frozen_is_taken_from_the_memory_of_the_tiles(kind: str, dtype: torch.dtype) -> None:
    """Exactly as many tiles as fit, to the byte."""
    nodes, size = 40, dtype.itemsize
    views = (torch.ones(nodes, 5, dtype=dtype), torch.ones(nodes, 5, dtype=dtype))
    slots = {"plain": 4, "weight": 6, "mix": 4}[kind]
    pair_bytes = slots * 16**2 * size
    probabilities = nodes * (nodes + 16) * size
    # candidates of both views; for each anchor 5 numbers a candidate, 2 a pair, and addresses of both views
    mixing = 2 * 4 * nodes * 4 + nodes * ((5 * 4 + 2 * 3) * size + 2 * (4 + 3) * 4)
    reserved = {"plain": 0, "weight": probabilities, "mix": mixing}[kind]
    pairs = {"plain": 2, "weight": 5, "mix": 6}[kind]  # of 6; a store for mixing holds all or none
    assert reserved <= (reserved + pairs * pair_bytes) // 4 or kind != "weight"  # else they would be rounded
    for missing in (0, 1):
        workspace = Workspace(reserved + pairs * pair_bytes - missing, 16)
        store = make_weights(views, 0.5, plan_of(kind, nodes), workspace, Shard()).store
        assert store.stored == (0 if kind == "mix" and missing else pairs - missing)


def test_a_store_of_all_or_none_stays_empty() -> None:
    views = (torch.ones(40, 5), torch.ones(40, 5))
    layout = Layout(40, 16, 4)
    assert TileStore(views, 0.5, layout, Workspace(0, 16), 3 * layout.pair_elements * 4, all_or_none=True).stored == 0


def test_stale_tensors_are_dropped() -> None:
    workspace, key = Workspace(0), object()
    workspace.drop_stale(key)
    workspace.frozen["p",] = torch.ones(1)
    workspace.drop_stale(key)
    assert workspace.frozen
    workspace.drop_stale(object())
    assert not workspace.frozen
    workspace.frozen["p",] = torch.ones(1)
    for _ in range(2):  # None is never the same
        workspace.drop_stale(None)
        assert not workspace.frozen
        workspace.frozen["p",] = torch.ones(1)


def test_a_shard_without_all_reduce_is_unreduced() -> None:
    assert not Shard().is_unreduced_shard
    assert Shard((0, 2)).is_unreduced_shard
    assert not Shard((0, 2), lambda *tensors: None).is_unreduced_shard
    reduced: list[Tensor] = []
    one, two = torch.ones(1), torch.ones(2)
    Shard((0, 2), lambda *tensors: reduced.extend(tensors)).reduce(one, two)
    assert [id(tensor) for tensor in reduced] == [id(one), id(two)]
