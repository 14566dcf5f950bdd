"""Neighbors as positives: batches, loss, held-out edges, and what is learned."""

import math
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from progcl import InputError, fit, load_config
from progcl.data.splits import heldout_split
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe
from progcl.graph.hop_table import HopTable
from progcl.methods.neighbors import Neighbors
from progcl.training.trainer import Trainer
from support.naive import cosine, naive_jsd

DATA = csbm(nodes=300, classes=3, degree=8, features=16, signal=1.2, homophily=0.8)
LINKED = to_dense_adj(DATA.edge_index)[0] > 0
SMALL: dict[str, Any] = {
    "method.name": "neighbors",
    "encoder.name": "svd",
    "encoder.hops": [0],
    "encoder.hidden": 16,
    "encoder.projection": 8,
    "batch.size": 40,
    "miner.name": "none",
    "probe.protocol": "none",
    "train.epochs": 4,
}


def make(**changes: Any) -> Trainer:
    return Trainer(
        load_config("csbm", {**SMALL, **{key.replace("__", "."): each for key, each in changes.items()}}), DATA
    )


def method_of(trainer: Trainer) -> Neighbors:
    assert isinstance(trainer.method, Neighbors)
    return trainer.method


@pytest.mark.parametrize("walk", [1, 3])
def test_a_batch_is_its_seeds_and_what_walks_visit_with_the_edges_between_them(walk: int) -> None:
    method = method_of(make(method__steps=walk, method__drop_positives=0.0))
    seeds = torch.arange(0, 300, 9)
    nodes, pairs = method.pair(seeds, key=5)
    assert torch.equal(nodes, nodes.unique())
    assert torch.isin(seeds, nodes).all()
    assert len(seeds) < len(nodes) <= (1 + walk) * len(seeds)
    found = torch.zeros(len(nodes), len(nodes), dtype=torch.bool)
    found[pairs[0], pairs[1]] = True
    assert torch.equal(found, found.T)
    induced = LINKED[nodes][:, nodes]
    assert (found | ~induced).all()  # every edge
    powers = [torch.linalg.matrix_power(LINKED.float(), power)[nodes][:, nodes] > 0 for power in range(1, walk + 1)]
    assert (torch.stack(powers).any(dim=0) | ~found.fill_diagonal_(False)).all()  # and what a walk can reach
    assert torch.equal(found & ~torch.eye(len(nodes), dtype=torch.bool), induced) == (walk == 1)
    assert all(torch.equal(*both) for both in zip(method.pair(seeds, 5), (nodes, pairs), strict=True))
    assert not torch.equal(method.pair(seeds, 6).nodes, nodes)


def test_positives_are_dropped_at_their_rate() -> None:
    everyone = torch.arange(300)
    kept, total = (method_of(make(method__drop_positives=rate)).pair(everyone, 1).pairs.size(1) for rate in (0.4, 0.0))
    assert total == DATA.edge_index.size(1)
    assert kept / total == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("encoder", ["svd", "mlp", "gcn"])
@pytest.mark.parametrize("anchors", [30, None])
def test_the_loss_of_a_step_is_its_definition(
    encoder: str, anchors: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make(encoder__name=encoder, batch__size=None, train__anchors=anchors)
    method = method_of(trainer)
    captured: dict[str, Any] = {}
    forward = method.criterion.forward

    def record(h: torch.Tensor, **arguments: Any) -> torch.Tensor:
        captured.update(arguments, h=h)
        return forward(h, **arguments)

    monkeypatch.setattr(method.criterion, "forward", record)
    (batch,) = method.batches(1)
    loss = method.loss(batch).item()
    h, (first, second), seeds = captured["h"].detach(), captured["positives"].tolist(), captured["nodes"]
    assert (len(seeds) < 100) == (anchors is not None)
    torch.testing.assert_close(h, method.projector(method.embed(trainer.graph))[seeds])
    positives: dict[int, list[int]] = {}
    for i, j in zip(first, second, strict=True):
        positives.setdefault(i, []).append(j)
    values = []
    for i, near in positives.items():
        mass = sum(math.exp(cosine(h[i], h[k]) / 0.4) for k in range(len(h)) if k != i and k not in near)
        values += [math.log(1 + mass / math.exp(cosine(h[i], h[j]) / 0.4)) for j in near]
    assert loss == pytest.approx(sum(values) / len(values), rel=1e-4)


def test_the_sigmoid_objective_is_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(method__objective="sigmoid", loss__tau=0.25)
    method = method_of(trainer)
    captured: dict[str, torch.Tensor] = {}
    forward = method.criterion.forward

    def record(h: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        captured.update(h=h.detach(), positives=positives)
        return forward(h, positives)

    monkeypatch.setattr(method.criterion, "forward", record)
    loss = method.loss(next(iter(method.batches(1)))).item()
    assert len(captured["h"]) > 40  # seeds, and nodes near them
    assert loss == pytest.approx(naive_jsd(captured["h"].double(), captured["positives"], 0.25), rel=1e-5)


def test_the_sigmoid_objective_takes_no_miner() -> None:
    with pytest.raises(InputError, match="takes no miner"):
        load_config("embed", {"miner.name": "progcl-weight"})
    with pytest.raises(InputError, match="objective"):
        make(method__objective="softmax")


def test_held_out_edges_are_never_walked_and_the_same_in_both_directions() -> None:
    method = method_of(make(method__holdout=0.2))
    heldout = method.heldout_edges()
    assert heldout is not None
    assert heldout.size(1) / (DATA.edge_index.size(1) / 2) == pytest.approx(0.2, abs=0.05)
    nodes, pairs = method.pair(torch.arange(300), 1)
    assert len(nodes) == 300
    assert (
        not LINKED.new_zeros(300, 300)
        .index_put_((pairs[0], pairs[1]), torch.tensor(True))[heldout[0], heldout[1]]
        .any()
    )
    assert method_of(make()).heldout_edges() is None
    other = method_of(make(method__holdout=0.2, train__seed=1)).heldout_edges()
    assert other is not None
    assert other.shape != heldout.shape or not torch.equal(other, heldout)


@pytest.mark.parametrize("changes", [{"encoder.name": "gcn"}, {"encoder.hops": [0, 1]}])
def test_an_encoder_that_sees_held_out_edges_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="would see the edges"):
        load_config("csbm", {**SMALL, "method.holdout": 0.1, **changes})
    with pytest.raises(InputError, match="needs edges to judge by"):
        load_config("csbm", {**SMALL, "output.blocks": "auto", "output.features": True})


@pytest.mark.parametrize("objective", ["infonce", "sigmoid"])
def test_it_learns_what_raw_features_and_an_untrained_copy_do_not_tell(objective: str) -> None:
    settings = {**SMALL, "encoder.norm": "layer", "encoder.dropout": 0.2, "output.smooth": [0, 1], "train.lr": 3e-3}
    settings |= {"encoder.hidden": 64, "encoder.projection": 32, "loss.tau": 0.3, "train.epochs": 30, "batch.size": 100}
    settings["method.objective"] = objective
    data = csbm(nodes=600, classes=3, degree=6, features=16, signal=1.2, homophily=0.7, seed=3)
    trainer = Trainer(load_config("csbm", settings), data)
    raw, untrained = (linear_probe(vectors, data, splits=5).mean for vectors in (data.x, trainer.embed()))
    list(trainer.run(30))
    learned = linear_probe(trainer.embed(), data, splits=5).mean
    assert raw < 65
    assert untrained + 3 < learned
    assert learned > 77


def test_batches_of_a_table_are_alike_however_they_are_split() -> None:
    method = method_of(make(encoder__dropout=0.3))
    graph = method.context.graph
    assert isinstance(graph, HopTable)
    whole = next(iter(method.batches(3)))
    method.train()
    dropout = method.encoder.dropout
    assert dropout is not None
    outputs = []
    for rank in (None, 0, 1):
        graph.shard = (0, 1) if rank is None else (rank, 2)
        batch = next(iter(method.batches(3)))
        assert batch.seeds is not None
        assert whole.seeds is not None
        assert torch.equal(batch.seeds, whole.seeds)
        dropout.generator.manual_seed(1)
        outputs.append(method.encoder(batch.view(0.0, 0.0, torch.Generator())))
    torch.testing.assert_close(torch.cat(outputs[1:]), outputs[0])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method.holdout": 0.1},
        {"encoder.name": "mlp"},
        {"encoder.name": "mlp", "batch.size": None, "method.holdout": 0.1},
    ],
)
def test_unseen_nodes_and_their_edges_change_nothing_in_training(changes: dict[str, Any]) -> None:
    config = load_config("csbm", {**SMALL, "data.inductive": True, "output.smooth": [0, 1], **changes})
    train = heldout_split(DATA)[0]
    is_train = torch.zeros(300, dtype=torch.bool).index_fill_(0, train, True)
    inside = is_train[DATA.edge_index].all(dim=0)
    changed = Data(x=DATA.x.clone(), edge_index=DATA.edge_index[:, inside], y=DATA.y, num_nodes=300)
    changed.x[~is_train] += 5
    result, other = fit(config, data=DATA), fit(config, data=changed)
    assert result.embeddings.shape == (300, 32)
    assert other.losses == result.losses
    assert not torch.equal(result.embeddings[~is_train], other.embeddings[~is_train])


def test_fixed_batches_are_refused() -> None:
    with pytest.raises(InputError, match="never the same"):
        load_config("csbm", {**SMALL, "batch.variant": "paper"})
