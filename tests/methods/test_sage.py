"""Unsupervised GraphSAGE: pairs of walks, noise, the loss against its formula and PyG's, and what is learned."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import Node2Vec
from torch_geometric.utils import degree, to_dense_adj

from progcl import InputError
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe
from progcl.graph.sampled import SampledBatch
from progcl.methods.sage import NOISE_PER_STEP, Sage, walk_loss
from progcl.training.trainer import Trainer
from support.runs import BATCHES, small

DATA = csbm(nodes=300, classes=3, degree=8, features=16, signal=1.2, homophily=0.8)
LINKED = to_dense_adj(DATA.edge_index)[0] > 0


def make(data: Data = DATA, **changes: Any) -> Trainer:
    return Trainer(small(**{"method__name": "sage", "encoder__name": "sage", "miner__name": "none", **changes}), data)


def method_of(trainer: Trainer) -> Sage:
    assert isinstance(trainer.method, Sage)
    return trainer.method


def naive_loss(z: Tensor, pairs: Tensor, noise: Tensor, negatives: int) -> float:
    """Eq. 1, one pair at a time; slow on purpose."""
    total = 0.0
    for u, v in pairs.T.tolist():
        total += math.log(1 + math.exp(-float(z[u] @ z[v])))
        total += negatives * sum(math.log(1 + math.exp(float(z[u] @ z[n]))) for n in noise.tolist()) / len(noise)
    return total / pairs.size(1)


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    pairs = torch.tensor([[0, 0, 0, 4, 4, 4], [1, 2, 3, 5, 1, 8]])
    return z, pairs, torch.randint(9, (7,), generator=generator)


@pytest.mark.parametrize("negatives", [1, 20])
def test_the_loss_is_its_definition(negatives: int) -> None:
    loss = walk_loss(*tensors(), negatives).item()
    assert loss == pytest.approx(naive_loss(*tensors(), negatives), rel=1e-10)


def test_the_loss_with_one_negative_is_that_of_pyg() -> None:
    """Its class needs a compiled walker, its loss does not."""
    z, pairs, noise = tensors()
    starts, partners = pairs[0, ::3], pairs[1].view(2, 3)
    vectors = SimpleNamespace(embedding=lambda nodes: z[nodes], embedding_dim=4, EPS=0.0)
    walks = [torch.cat([starts[:, None], rest], dim=1) for rest in (partners, noise.expand(2, -1))]
    theirs = Node2Vec.loss(vectors, *walks)
    assert walk_loss(z, pairs, noise, 1).item() == pytest.approx(theirs.item(), rel=1e-10)


def test_no_pair_has_no_loss() -> None:
    z, _, noise = tensors()
    assert walk_loss(z, torch.empty(2, 0, dtype=torch.long), noise, 20).item() == 0


@pytest.mark.parametrize("steps", [1, 3])
def test_pairs_are_a_seed_and_what_its_walk_visits(steps: int) -> None:
    method = method_of(make(method__steps=steps))
    seeds = torch.arange(0, 300, 9)
    nodes, pairs = method.pair(seeds, key=5)
    u, v = nodes[pairs[:, :-NOISE_PER_STEP]]
    assert torch.equal(nodes, nodes.unique())
    assert torch.isin(u, seeds).all()
    assert (u != v).all()
    assert len(u) == len(seeds) if steps == 1 else len(seeds) < len(u) <= steps * len(seeds)
    reach = sum(torch.linalg.matrix_power(LINKED.float(), power) for power in range(1, steps + 1))
    assert isinstance(reach, Tensor)
    assert (reach[u, v] > 0).all()
    assert torch.equal(pairs[0, -NOISE_PER_STEP:], pairs[1, -NOISE_PER_STEP:])
    assert all(torch.equal(*both) for both in zip(method.pair(seeds, 5), (nodes, pairs), strict=True))
    assert not torch.equal(method.pair(seeds, 6).nodes, nodes)


def test_noise_is_drawn_by_degree() -> None:
    hub = Data(x=torch.randn(18, 3), edge_index=torch.tensor([[0] * 16, range(1, 17)]))  # 17 has no neighbors
    hub.edge_index = torch.cat([hub.edge_index, hub.edge_index.flip(0)], dim=1)
    method, generator = method_of(make(hub, encoder__name="gcn")), torch.Generator().manual_seed(0)
    count = torch.stack([torch.bincount(method.draw_noise(generator), minlength=18) for _ in range(300)]).sum(dim=0)
    expected = degree(hub.edge_index[0], 18) ** 0.75  # 8 for the hub, 1 for each of its 16 neighbors
    torch.testing.assert_close(count / count.sum(), expected / 24, atol=0.006, rtol=0)
    assert count[17] == 0


@pytest.mark.parametrize("changes", [{}, BATCHES])
def test_the_loss_of_a_step_is_that_of_its_pairs(changes: dict[str, Any]) -> None:
    method = method_of(make(**{**changes, "method__negatives": 3}))
    batch = next(iter(method.batches(1)))
    pairs, nodes = batch.pairs, batch.seeds
    if pairs is None:
        generator = method.context.generator("pairs")
        state = generator.get_state()
        nodes, pairs = method.pair(torch.arange(300), int(torch.randint(2**62, (), generator=generator)))
        generator.set_state(state)
    assert nodes is not None
    assert isinstance(batch, SampledBatch) == bool(changes)
    with torch.no_grad():
        z = method.encoder(batch.full_view())
        z = z / z.norm(dim=1, keepdim=True)
    assert len(z) == len(nodes)
    expected = naive_loss(z, pairs[:, :-NOISE_PER_STEP], pairs[1, -NOISE_PER_STEP:], 3)
    assert method.loss(batch).item() == pytest.approx(expected, rel=1e-4)


def test_isolated_nodes_do_no_harm_and_no_edges_are_refused() -> None:
    lonely = Data(x=torch.randn(40, 5), edge_index=torch.tensor([[0, 1], [1, 0]]))
    trainer = make(lonely, **{**BATCHES, "batch__size": 4})
    assert all(math.isfinite(record.loss) for record in trainer.run(2))
    assert torch.isfinite(trainer.embed()).all()
    with pytest.raises(InputError, match="no edges to walk along"):
        make(Data(x=torch.randn(40, 5), edge_index=torch.empty(2, 0, dtype=torch.long)))


@pytest.mark.parametrize("changes", [{}, {"batch__size": 100, "batch__fanouts": [5, 5]}])
def test_it_learns_what_raw_features_and_an_untrained_copy_do_not_tell(changes: dict[str, Any]) -> None:
    data = csbm(nodes=500, classes=3, degree=6, features=128, signal=1.7, homophily=0.8, seed=2)
    settings = {"encoder__hidden": 32, "encoder__activation": "prelu", "train__lr": 0.005, **changes}
    trainer = make(data, **settings)
    raw, untrained = (linear_probe(vectors, data, splits=5).mean for vectors in (data.x, trainer.embed()))
    list(trainer.run(40 if changes else 100))
    embeddings = trainer.embed()
    learned = linear_probe(embeddings, data, splits=5).mean
    assert raw < 65
    assert untrained < 60
    assert learned > 77, (raw, untrained, learned)  # 62.8, 50, and 81 or, in batches, 83
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(500))


def test_vectors_may_point_anywhere() -> None:
    """With an activation after the last layer, only vectors of zeros would have nothing in common with noise."""
    trainer = Trainer(small(method__name="sage", encoder__activation="relu", train__epochs=1), csbm(nodes=60))
    assert (trainer.embed() < 0).any()
