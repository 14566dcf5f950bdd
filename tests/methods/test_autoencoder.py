"""GAE and VGAE: their losses by definition and as PyG has them, and what they learn."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GAE, VGAE

from progcl import InputError, load_config
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe
from progcl.graph.views import Graph, View
from progcl.methods.autoencoder import Gae, Vgae
from progcl.training.trainer import Trainer
from support.runs import small

DATA = csbm(nodes=40, degree=8, homophily=0.9, signal=3)
DATA.x /= 4  # PyG's σ is 1 in single precision for inner products above 17


def make(name: str) -> tuple[Graph, Gae]:
    trainer = Trainer(small(method__name=name, method__latent=4, miner__name="none", encoder__layers=1), DATA)
    assert isinstance(trainer.method, Gae)
    assert isinstance(trainer.graph, Graph)
    return trainer.graph, trainer.method


def draws_of(method: Gae, graph: Graph) -> tuple[float, Tensor]:
    """The loss of a step, and its negatives."""
    generator = method.context.generator("negatives")
    state = generator.get_state()
    loss = method.loss(graph).item()
    generator.set_state(state)
    return loss, method.non_edges.sample(DATA.edge_index.size(1), generator)


def naive_reconstruction(z: Tensor, positives: Tensor, negatives: Tensor) -> float:
    """Mean cross entropy of edges, and of other pairs; slow on purpose."""
    edges = sum(math.log1p(math.exp(-float(z[i] @ z[j]))) for i, j in positives.T.tolist())
    others = sum(math.log1p(math.exp(float(z[i] @ z[j]))) for i, j in negatives.T.tolist())
    return edges / positives.size(1) + others / negatives.size(1)


def convolve(graph: Graph, h: Tensor, linear: nn.Linear) -> Tensor:
    """Â h W + b with a dense Â."""
    return View(graph).symmetric.csr.to_dense() @ h @ linear.weight.T + linear.bias


def test_the_loss_of_gae_is_its_definition_and_that_of_pyg() -> None:
    graph, method = make("gae")
    loss, negatives = draws_of(method, graph)
    with torch.no_grad():
        z = convolve(graph, method.encoder(View(graph)), method.mean)
        assert loss == pytest.approx(GAE(nn.Identity()).recon_loss(z, DATA.edge_index, negatives).item(), rel=1e-5)
        assert loss == pytest.approx(naive_reconstruction(z, DATA.edge_index, negatives), rel=1e-4)
        assert torch.allclose(method.embed(graph), z, atol=1e-5)


def test_the_loss_of_vgae_is_its_definition_and_that_of_pyg() -> None:
    graph, method = make("vgae")
    assert isinstance(method, Vgae)
    noises = method.context.generator("noise")
    state = noises.get_state()
    loss, negatives = draws_of(method, graph)
    noises.set_state(state)
    with torch.no_grad():
        h = method.encoder(View(graph))
        mean, log_std = convolve(graph, h, method.mean), convolve(graph, h, method.log_std)
        z = mean + torch.randn(40, 4, generator=noises) * log_std.exp()
        pyg = VGAE(nn.Identity())
        expected = pyg.recon_loss(z, DATA.edge_index, negatives) + pyg.kl_loss(mean, log_std) / 40
        divergence = 0.0
        for m, s in zip(mean.flatten().tolist(), log_std.flatten().tolist(), strict=True):
            divergence -= (1 + 2 * s - m**2 - math.exp(2 * s)) / 2
        assert loss == pytest.approx(expected.item(), rel=1e-5)
        naive = naive_reconstruction(z, DATA.edge_index, negatives) + divergence / 40 / 40
        assert loss == pytest.approx(naive, rel=1e-4)
        assert torch.allclose(method.embed(graph), mean, atol=1e-5)


@pytest.mark.parametrize("name", ["gae", "vgae"])
def test_the_seed_decides_every_parameter_and_every_step(name: str) -> None:
    """Nothing depends on torch's global generator, from which PyG would draw."""
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        graph, method = make(name)
        method.loss(graph)
        states.append((method.state_dict(), method.loss(graph)))
    assert torch.equal(states[0][1], states[1][1])
    for key, value in states[0][0].items():
        assert torch.equal(value, states[1][0][key]), key


@pytest.mark.parametrize("name", ["gae", "vgae"])
def test_it_learns_what_raw_features_and_an_untrained_copy_do_not_tell(name: str) -> None:
    """Raw features and the untrained copy stay below 60 %, 20 epochs reach 75 %."""
    data = csbm(nodes=500, classes=3, degree=6, features=64, signal=1.5, homophily=0.7, seed=2)
    settings = {"method.name": name, "method.latent": 8, "encoder.layers": 1, "encoder.hidden": 32}
    trainer = Trainer(load_config("csbm", settings | {"miner.name": "none", "train.lr": 0.01}, strict=False), data)
    raw, untrained = (linear_probe(vectors, data, splits=5).mean for vectors in (data.x, trainer.embed()))
    list(trainer.run(20))
    learned = linear_probe(trainer.embed(), data, splits=5).mean
    assert max(raw, untrained) < 60
    assert learned > 75, (raw, untrained, learned)


def test_a_graph_without_edges_is_refused() -> None:
    data = csbm(nodes=20)
    data.edge_index = data.edge_index[:, :0]
    with pytest.raises(InputError, match="method `vgae` reconstructs edges"):
        Trainer(small(method__name="vgae", miner__name="none"), data)
