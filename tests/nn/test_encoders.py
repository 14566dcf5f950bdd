from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from progcl import InputError
from progcl.data.synthetic import csbm
from progcl.graph.sampled import SampledGraph
from progcl.graph.sparse import SparseMatrix, choose_format, drop_entries, drop_features
from progcl.graph.views import Graph, View
from progcl.nn.encoders import ENCODERS, GCN, MLP, NORMS, Dropout, Sage, SkipMLP, SvdMLP
from progcl.nn.heads import INITS, Projector
from progcl.nn.momentum import MomentumCopy


def directed() -> Data:
    """A graph with directed edges, a self-loop and an isolated node, as dropping edges leaves it."""
    edges = torch.tensor([[0, 1, 2, 2, 3, 3], [1, 2, 0, 1, 3, 0]])
    return Data(x=torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), edge_index=edges)


def full_view(data: Data) -> View:
    return View(Graph(data))


@pytest.mark.parametrize("data", [directed(), csbm(nodes=60, classes=3, features=4)])
def test_a_layer_equals_pygs_gcnconv(data: Data) -> None:
    ours = GCN(4, 3, layers=1, activation="relu", generator=torch.Generator().manual_seed(0))
    theirs = GCNConv(4, 3)
    weight, bias = ours.parameters()
    with torch.no_grad():
        bias.add_(0.1)
        theirs.lin.weight.copy_(weight)
        theirs.bias.copy_(bias)
    x1, x2 = (data.x.clone().requires_grad_() for _ in range(2))
    out1 = ours(full_view(Data(x=x1, edge_index=data.edge_index)))
    out2 = theirs(x2, data.edge_index).relu()
    torch.testing.assert_close(out1, out2, atol=1e-5, rtol=1e-5)
    target = torch.randn(out1.shape, generator=torch.Generator().manual_seed(1))
    grads1 = torch.autograd.grad((out1 * target).sum(), (x1, weight, bias))
    grads2 = torch.autograd.grad((out2 * target).sum(), (x2, theirs.lin.weight, theirs.bias))
    for ours_grad, theirs_grad in zip(grads1, grads2, strict=True):
        torch.testing.assert_close(ours_grad, theirs_grad, atol=1e-5, rtol=1e-5)


def test_two_layers_are_twice_as_wide_first_and_activated_both() -> None:
    encoder = GCN(7, 4, layers=2, activation="relu", generator=torch.Generator().manual_seed(0))
    assert [tuple(p.shape) for p in encoder.parameters()] == [(8, 7), (8,), (4, 8), (4,)]
    out = encoder(full_view(csbm(nodes=60, features=7)))
    assert (out >= 0).all()
    assert (out == 0).any()


def test_mlp_passes_no_messages() -> None:
    data = csbm(nodes=60, features=7)
    encoder = MLP(7, 4, layers=2, activation="elu", generator=torch.Generator().manual_seed(0))
    isolated = Data(x=data.x[:1], edge_index=torch.empty(2, 0, dtype=torch.long))
    torch.testing.assert_close(encoder(full_view(data))[:1], encoder(full_view(isolated)))


def test_rrelu_is_the_fixed_slope_of_the_published_settings() -> None:
    encoder = MLP(1, 1, layers=1, activation="rrelu", generator=torch.Generator().manual_seed(0))
    assert encoder.activation(torch.tensor(-1.0)).item() == pytest.approx(-0.2292, abs=1e-4)


def test_initialization_comes_from_the_generator_alone() -> None:
    def initial_parameters(seed: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        modules = [make(5, 4, 2, "relu", generator) for make in ENCODERS.values()]
        parameters = [p for module in [*modules, Projector(4, 6, generator)] for p in module.parameters()]
        return [p for p in parameters if p.any()]

    for first, again, other in zip(initial_parameters(0), initial_parameters(0), initial_parameters(1), strict=True):
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


@pytest.mark.parametrize("make", [GCN, Sage, MLP])
def test_weights_begin_within_glorots_bounds(make: type[MLP]) -> None:
    for layer in make(5, 4, 2, "relu", torch.Generator().manual_seed(0)).layers:
        assert isinstance(layer, torch.nn.Linear)
        bound = (6 / sum(layer.weight.shape)) ** 0.5
        assert 0.8 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()


def test_torchs_initialization_is_within_its_bounds() -> None:
    encoder = SvdMLP(50, 40, 2, "relu", torch.Generator().manual_seed(0), linear=INITS["torch"])
    for layer in encoder.layers:
        assert isinstance(layer, torch.nn.Linear)
        assert layer.out_features == 40
        for parameter in (layer.weight, layer.bias):
            assert 0.8 < parameter.abs().max() * layer.in_features**0.5 <= 1


def test_a_skip_connection_adds_the_rotated_rows_to_the_output_of_the_layers() -> None:
    wide = SkipMLP(4, 7, layers=2, activation="elu", generator=torch.Generator().manual_seed(0))
    plain = MLP(4, 7, layers=2, activation="elu", generator=torch.Generator().manual_seed(1))
    view, x = full_view(directed()), directed().x
    initial = wide(view)
    torch.testing.assert_close(initial @ initial.T, x @ x.T)  # norms and angles are preserved
    wide.layers.load_state_dict(plain.layers.state_dict())
    torch.testing.assert_close(wide(view), plain(view) + x @ wide.straight)
    narrow = SkipMLP(400, 100, layers=1, activation="elu", generator=torch.Generator().manual_seed(0))
    rows = torch.randn(50, 400, generator=torch.Generator().manual_seed(1))
    lengths = (rows @ narrow.straight).norm(dim=1) / rows.norm(dim=1)
    assert lengths.mean().item() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("norm", "make"), [("batch", lambda width: nn.BatchNorm1d(width, momentum=0.01)), ("layer", nn.LayerNorm)]
)
@pytest.mark.parametrize("last", [False, True])
def test_norms_act_before_or_after_the_activation(norm: str, make: Callable[[int], nn.Module], last: bool) -> None:
    data = csbm(nodes=60, features=7)
    encoder = GCN(7, 4, 2, "prelu", torch.Generator().manual_seed(0), norm, norm_last=last)
    adjacency = full_view(data).symmetric.csr.to_dense()
    norms = [make(8), make(4)]

    def expected() -> torch.Tensor:
        x: torch.Tensor = data.x
        for layer, norm in zip(encoder.layers, norms, strict=True):
            assert isinstance(layer, nn.Linear)
            x = adjacency @ x @ layer.weight.T + layer.bias
            x = norm(encoder.activation(x)) if last else encoder.activation(norm(x))
        return x

    for _ in range(3):  # running statistics are updated
        torch.testing.assert_close(encoder(full_view(data)), expected())
    encoder.eval()
    for each in norms:
        each.eval()
    torch.testing.assert_close(encoder(full_view(data)), expected())
    assert {name for name, _ in encoder.named_parameters() if name.startswith("norms")} == {
        f"norms.{number}.{name}" for number in range(2) for name in ("weight", "bias")
    }


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ENCODERS)
def test_in_evaluation_mode_every_norm_embeds_layer_by_layer(name: str, norm: str) -> None:
    data = csbm(nodes=60, features=7)
    encoder = ENCODERS[name](7, 4, 2, "relu", torch.Generator().manual_seed(0), norm)
    for _ in range(3):
        encoder(full_view(data))
    encoder.eval()
    state = {key: value.clone() for key, value in encoder.state_dict().items()}
    if not isinstance(encoder, SkipMLP):  # a sum of two paths is no sequence of layers
        out = SampledGraph(data, (2, 2), size=20, seed=0).embed(encoder)
        torch.testing.assert_close(out, encoder(full_view(data)), atol=1e-5, rtol=1e-4)
    some = encoder(Graph(data).restrict(torch.arange(5), (0, 1)).view(0.0, 0.0, torch.Generator()))
    torch.testing.assert_close(some, encoder(full_view(data))[:5], atol=1e-5, rtol=1e-4)
    assert all(torch.equal(value, state[key]) for key, value in encoder.state_dict().items())


def test_without_a_norm_the_state_is_that_of_the_linear_layers() -> None:
    plain = GCN(7, 4, 2, "relu", torch.Generator().manual_seed(0))
    assert list(plain.state_dict()) == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
    with pytest.raises(InputError, match="unknown norm `batchnorm`\n\nhint: did you mean `batch`"):
        GCN(7, 4, 2, "relu", torch.Generator(), "batchnorm")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", ["gcn", "mlp", "sage"])
def test_dropout_scales_what_it_keeps_and_is_off_in_evaluation(name: str, kind: str) -> None:
    """The mean over many masks is the input, as the first layer without activation shows."""
    data = csbm(nodes=40, features=30)
    if kind == "sparse":
        data.x = data.x * (torch.rand(data.x.shape, generator=torch.Generator().manual_seed(2)) < 0.08)
    dropout = Dropout(0.4, torch.Generator().manual_seed(1))
    plain, dropped = (
        ENCODERS[name](30, 4, 1, "relu", torch.Generator().manual_seed(0), "none", d) for d in (None, dropout)
    )
    for encoder in (plain, dropped):
        encoder.activation = nn.Identity()
    view = full_view(data)
    with torch.no_grad():
        outputs = torch.stack([dropped(view) for _ in range(3000)])
        spread = outputs.std(dim=0).clamp_min(1e-3)
        assert ((outputs.mean(dim=0) - plain(view)).abs() / (spread / 3000**0.5)).max() < 5
        assert not torch.equal(outputs[0], outputs[1])
        assert torch.equal(dropped.eval()(view), plain(view))


def test_dropout_of_an_entry_depends_on_node_and_column_alone() -> None:
    x, nodes = torch.ones(1000, 50), torch.arange(1000)
    whole = drop_entries(x, nodes, 0.25, key=7)
    some = nodes[::3].flip(0)
    assert torch.equal(drop_entries(x[some], some, 0.25, key=7), whole[some])
    assert (whole == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert whole[whole > 0].unique().tolist() == pytest.approx([1 / 0.75])
    correlations = torch.corrcoef(torch.cat([whole.T, drop_entries(x, nodes, 0.25, key=8).T]))
    assert correlations.fill_diagonal_(0).abs().max() < 0.2  # of 100 columns and two keys


def test_sparse_features_are_dropped_alike_in_both_of_their_forms() -> None:
    x = torch.zeros(30, 20).index_put_((torch.arange(30), torch.arange(30) % 20), torch.tensor(2.0))
    matrix = drop_features(choose_format(x), 0.5, key=3)
    assert isinstance(matrix, SparseMatrix)
    assert torch.equal(matrix.csr.to_dense(), matrix.transpose.to_dense().T)
    torch.testing.assert_close(matrix.csr.to_dense(), drop_features(x, 0.5, key=3))


def test_a_momentum_copy_has_no_dropout() -> None:
    encoder = GCN(7, 4, 2, "relu", torch.Generator().manual_seed(0), "none", Dropout(0.5, torch.Generator()))
    view = full_view(csbm(nodes=60, features=7))
    copied = MomentumCopy(nn.Sequential(encoder))
    assert torch.equal(copied(view), encoder.eval()(view))
    assert encoder.dropout is not None
