import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from progcl import InputError
from progcl.data.synthetic import csbm
from progcl.evaluation import linear_probe
from progcl.graph.views import Graph
from progcl.graph.walks import WalkBatch
from progcl.methods.walks import NOISE_PER_WALK, DeepWalk, skip_gram, window_weights
from progcl.training.trainer import Trainer
from support.runs import small

DATA = csbm(nodes=400, classes=4, degree=12, homophily=0.9, signal=0)  # the features say nothing of the classes
SETTINGS = {
    "encoder__hidden": 32,
    "train__epochs": 10,
    "train__lr": 0.01,
    "method__walk_length": 20,
    "method__window": 5,
}


def make(name: str = "deepwalk", **changes: object) -> Trainer:
    return Trainer(small(**{**SETTINGS, "method__name": name, **changes}), DATA)


def method_of(trainer: Trainer) -> DeepWalk:
    assert isinstance(trainer.method, DeepWalk)
    return trainer.method


def naive_skip_gram(u: Tensor, v: Tensor, noise: Tensor, window: int, negatives: int) -> float:
    """Every window size from 1 to `window`, every place, every other place in the window; slow on purpose."""
    total, pairs = 0.0, 0
    for walk in range(len(u)):
        for size in range(1, window + 1):
            for i in range(u.size(1)):
                for j in range(max(0, i - size), min(u.size(1), i + size + 1)):
                    if i == j:
                        continue
                    against = [math.log(1 + math.exp(float(u[walk, i] @ n))) for n in noise[walk]]
                    total += math.log(1 + math.exp(-float(u[walk, i] @ v[walk, j])))
                    total += negatives * sum(against) / len(against)
                    pairs += 1
    return total / pairs


@pytest.mark.parametrize(("length", "window", "negatives"), [(2, 1, 1), (6, 2, 5), (7, 8, 3)])
def test_the_loss_is_its_definition(length: int, window: int, negatives: int) -> None:
    generator = torch.Generator().manual_seed(0)
    u, v, noise = (torch.randn(3, n, 4, generator=generator, dtype=torch.float64) for n in (length, length, 5))
    loss = skip_gram(u, v, noise, window_weights(length, window).double(), negatives).item()
    assert loss == pytest.approx(naive_skip_gram(u, v, noise, window, negatives), rel=1e-10)


def test_the_loss_is_that_of_the_batch() -> None:
    method = method_of(make())
    with torch.no_grad():
        method.context_vectors.normal_(generator=torch.Generator().manual_seed(0))
    batch = next(method.batches(1))
    assert batch.noise.shape == (len(batch.seeds), NOISE_PER_WALK)
    short = WalkBatch(batch.seeds[:2], batch.walks[:2], batch.noise[:2])
    u, contexts = method.vectors.detach()[short.walks], method.context_vectors.detach()
    expected = naive_skip_gram(u, contexts[short.walks], contexts[short.noise], window=5, negatives=5)
    assert method.loss(short).item() == pytest.approx(expected, rel=1e-5)


def test_a_step_changes_the_rows_of_its_batch_alone() -> None:
    method = method_of(make())
    optimizer, batch = method.optimizer(), next(method.batches(1))
    small_batch = WalkBatch(batch.seeds[:1], batch.walks[:1, :10], batch.noise[:1, :10])
    method.pair_weight = window_weights(10, 5)
    for table in (method.vectors, method.context_vectors):
        table.data.normal_(generator=torch.Generator().manual_seed(0))
    before = method.vectors.clone(), method.context_vectors.clone()
    method.loss(small_batch).backward()
    optimizer.step()
    for table, old, nodes in zip(
        (method.vectors, method.context_vectors),
        before,
        (small_batch.walks, torch.cat([small_batch.walks, small_batch.noise], dim=1)),
        strict=True,
    ):
        assert table.grad is not None
        assert table.grad.is_sparse
        changed = (table != old).any(dim=1).nonzero().flatten()
        assert torch.equal(changed, nodes.unique())


@pytest.mark.parametrize("name", ["deepwalk", "node2vec"])
def test_walks_find_the_classes(name: str) -> None:
    options = {"method__p": 0.5, "method__q": 2.0} if name == "node2vec" else {}
    trainer = make(name, **options)
    before = linear_probe(trainer.embed(), DATA, splits=3).mean
    list(trainer.run(10))
    assert before < 35
    assert linear_probe(trainer.embed(), DATA, splits=3).mean > 90


def test_p_and_q_change_the_walks() -> None:
    walks = [method_of(make("node2vec", method__q=q)).loader.walker.walk(torch.arange(9), 20, 1) for q in (1.0, 4.0)]
    assert not torch.equal(*walks)
    assert torch.equal(walks[0], method_of(make()).loader.walker.walk(torch.arange(9), 20, 1))


@pytest.mark.parametrize("rank", [256, 8])
def test_features_are_beside_the_vectors(rank: int) -> None:
    trainer = make("deepwalk-features", encoder__rank=rank)
    embeddings, method = trainer.embed(), method_of(trainer)
    assert embeddings.shape == (400, 32 + min(rank, 32))
    torch.testing.assert_close(embeddings[:, :32], normalize(method.vectors.detach(), dim=1))
    torch.testing.assert_close(embeddings[:, 32:].norm(dim=1), torch.ones(400))
    if rank > 32:
        torch.testing.assert_close(embeddings[:, 32:], normalize(DATA.x, dim=1))


def test_another_graph_is_refused() -> None:
    with pytest.raises(InputError, match="400 vectors do not belong to a graph of 60 nodes"):
        make().method.embed(Graph(csbm(nodes=60)))


def test_an_isolated_node_keeps_its_first_vector() -> None:
    data = csbm(nodes=120, degree=3, seed=1)
    isolated = torch.bincount(data.edge_index[0], minlength=120) == 0
    assert isolated.any()
    trainer = Trainer(small(**SETTINGS, method__name="deepwalk"), data)
    before = trainer.embed().clone()
    list(trainer.run(2))
    assert torch.equal((trainer.embed() == before).all(dim=1), isolated)


def test_accuracy_is_that_of_gensim_on_the_same_walks() -> None:
    word2vec = pytest.importorskip("gensim.models", reason="gensim is not installed").Word2Vec
    trainer = make()
    loader = method_of(trainer).loader
    walks = [walk for epoch in range(1, 11) for batch in loader.batches(epoch) for walk in batch.walks.tolist()]
    options = {"vector_size": 32, "window": 5, "negative": 5, "sg": 1, "min_count": 0, "sample": 0, "epochs": 1}
    vectors = word2vec([list(map(str, walk)) for walk in walks], workers=1, seed=0, **options).wv
    list(trainer.run(10))
    rows = torch.stack([torch.tensor(vectors[str(node)]) for node in range(400)])
    theirs, ours = (linear_probe(embeddings, DATA, splits=3).mean for embeddings in (rows, trainer.embed()))
    assert ours > theirs - 2
