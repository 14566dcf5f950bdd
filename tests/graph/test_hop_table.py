"""The hop table against its definition, and training on it."""

from typing import Any

import pytest
import torch
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl import fit, load_config
from progcl.data.synthetic import csbm
from progcl.graph.hop_table import HopTable
from progcl.training.trainer import Trainer

DATA = csbm(nodes=150, classes=3, degree=8, features=12, signal=3)
SETTINGS: dict[str, Any] = {
    "encoder.name": "hops",
    "encoder.hops": [0, 1, 2],
    "encoder.rank": 8,
    "encoder.hidden": 16,
    "method.drop_edges": [0.0, 0.0],
    "method.drop_features": [0.3, 0.3],
    "miner.start_epoch": 3,
    "train.epochs": 6,
    "probe.splits": 2,
}


@pytest.mark.filterwarnings("ignore:no mixture fitted")
@pytest.mark.parametrize(
    ("size", "miner"),
    [(None, "none"), (40, "none"), (None, "progcl-weight"), (40, "progcl-weight"), (40, "progcl-mix")],
)
def test_a_run_on_the_hop_table_learns(size: int | None, miner: str) -> None:
    """Until epoch 10 the loss is InfoNCE for every miner."""
    changes = {"batch.size": size, "miner.name": miner, "miner.start_epoch": 10, "train.epochs": 12}
    result = fit(load_config("csbm", {**SETTINGS, **changes}, strict=False), data=DATA)
    assert result.losses[8] < result.losses[0]
    assert result.embeddings.shape == (150, 16)
    assert result.score is not None
    assert result.score.mean > 60


def test_a_batch_has_the_rows_of_its_seeds() -> None:
    graph = HopTable(DATA, torch.eye(12), hops=[0, 1], size=40, seed=3)
    seeds = torch.cat([batch.seeds for batch in graph.batches(1) if batch.seeds is not None])
    assert seeds.sort().values.tolist() == list(range(150))
    batch = next(graph.batches(2))
    assert batch.seeds is not None
    assert torch.equal(batch.view(0.0, 0.0, torch.Generator()).rows, graph.rows[batch.seeds])


@pytest.mark.parametrize("walk", [0, 2])
def test_entries_are_dropped_at_their_rate_and_alike_in_shards(walk: int) -> None:
    unsplit = next(HopTable(DATA, torch.eye(12), hops=[0, 1], walk=walk, size=40, seed=3).batches(1))
    generator = torch.Generator()
    before, masked = (unsplit.view(0.0, rate, generator.manual_seed(1)).rows for rate in (0.0, 0.25))
    keep_rate = (masked != 0).float().mean() / (before != 0).float().mean()
    assert keep_rate.item() == pytest.approx(0.75, abs=0.05)
    halves = []
    for number in range(2):
        batch = next(
            HopTable(DATA, torch.eye(12), hops=[0, 1], walk=walk, size=40, seed=3, shard=(number, 2)).batches(1)
        )
        halves.append(batch.view(0.0, 0.25, generator.manual_seed(1)).rows)
    assert torch.equal(torch.cat(halves), masked)


@pytest.mark.parametrize("size", [None, 40])
def test_with_walks_a_row_is_that_of_a_node_some_steps_away(size: int | None) -> None:
    own, walked = (
        next(HopTable(DATA, torch.eye(12), hops=[0], walk=walk, size=size, seed=3).batches(1)) for walk in (0, 2)
    )
    assert torch.equal(own.nodes, walked.nodes)
    generator = torch.Generator().manual_seed(1)
    first, second = (walked.view(0.0, 0.0, generator).rows for _ in range(2))
    edges = torch.zeros(150, 150).index_put_(tuple(DATA.edge_index), torch.tensor(1.0))
    two_away, table = edges @ edges > 0, normalize(DATA.x, dim=1)
    for rows in (first, second):
        ends = torch.cdist(rows, table).argmin(dim=1)
        torch.testing.assert_close(rows, table[ends])
        assert two_away[walked.nodes, ends].all()
    assert not torch.equal(first, second)


def test_a_run_with_walks_learns() -> None:
    changes = {"method.walk": 2, "miner.name": "none"}
    first, *_, last = fit(load_config("csbm", {**SETTINGS, **changes}, strict=False), data=DATA).losses
    assert last < first


@pytest.mark.filterwarnings("ignore:no mixture fitted")
def test_inductive_training_sees_nothing_of_other_nodes() -> None:
    """Changed features of held-out nodes change neither the encoder nor the directions."""
    config = load_config("csbm", {**SETTINGS, "data.inductive": True, "probe.nodes": "heldout"})
    training = Trainer(config, DATA)
    members = set(training.train_data.x.double().sum(dim=1).tolist())
    others = torch.tensor([float(row.double().sum()) not in members for row in DATA.x])
    assert int(others.sum()) == 60
    changed = Data(x=DATA.x.clone(), edge_index=DATA.edge_index, y=DATA.y)
    changed.x[others] += 5
    runs = [Trainer(config, data) for data in (DATA, changed)]
    for run in runs:
        list(run.run(4))
    for first, second in zip(*(run.method.parameters() for run in runs), strict=True):
        assert torch.equal(first, second)
    first, second = (run.embed() for run in runs)
    assert first.shape == (150, 16)
    assert not torch.equal(first[others], second[others])


def test_anchors_are_the_only_rows_that_a_step_reads() -> None:
    graph, anchors = HopTable(DATA, torch.eye(12), hops=[0, 1]), torch.arange(0, 20, 3)
    second = next(graph.batches(1)).restrict(anchors, (1, 2))
    assert second.seeds is anchors
    torch.testing.assert_close(second.view(0.0, 0.0, torch.Generator()).rows, graph.rows[anchors[3:]])
    everyone, some = (
        fit(load_config("csbm", {**SETTINGS, "train.anchors": number}), data=DATA).losses for number in (None, 50)
    )
    assert all(few < many for few, many in zip(some, everyone, strict=True))  # the fewer negatives, the less
