"""Networks from nodes to vectors: GCN by sparse CSR products, MLP without message passing, projector."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import elu
from torch_geometric.data import Data

from progcl.errors import pick


class Adjacency(NamedTuple):
    """A sparse matrix and its transpose, both CSR: one for the forward, one for the backward product."""

    matrix: Tensor
    transpose: Tensor


def normalized_adjacency(edge_index: Tensor, nodes: int) -> Adjacency:
    """D̂^-½ (A+I) D̂^-½ with messages from source to target; D̂ counts what arrives, as PyG's `gcn_norm` has it."""
    loops = torch.arange(nodes, device=edge_index.device)
    proper = edge_index[:, edge_index[0] != edge_index[1]]
    source, target = torch.cat([proper, loops.expand(2, -1)], dim=1)
    scale = torch.bincount(target, minlength=nodes).float().rsqrt()
    value = scale[source] * scale[target]
    return Adjacency(_csr(target, source, value, nodes), _csr(source, target, value, nodes))


def _csr(row: Tensor, column: Tensor, value: Tensor, nodes: int) -> Tensor:
    order = row.argsort(stable=True)
    starts = torch.zeros(nodes + 1, dtype=torch.int32, device=row.device)
    starts[1:] = torch.bincount(row, minlength=nodes).cumsum(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            starts, column[order].int(), value[order], (nodes, nodes), check_invariants=False
        )


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency
        return adjacency.matrix @ x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.adjacency.transpose @ grads[0].contiguous(), None


def propagate(x: Tensor, adjacency: Adjacency) -> Tensor:
    """One step of message passing, Â·X."""
    out: Tensor = _Propagate.apply(x, adjacency)  # type: ignore[no-untyped-call]
    return out


class MLP(nn.Module):
    """Linear layers with an activation after each; all but the last are twice as wide as the embedding."""

    def __init__(self, features: int, hidden: int, layers: int, activation: str, generator: torch.Generator) -> None:
        super().__init__()
        widths = [features, *[2 * hidden] * (layers - 1), hidden]
        self.layers = nn.ModuleList(glorot(a, b, generator) for a, b in pairwise(widths))
        self.activation = pick(ACTIVATIONS, activation, "activation")()

    def forward(self, data: Data) -> Tensor:
        """Embeddings [N, hidden]."""
        x: Tensor = data.x
        for layer in self.layers:
            x = self.activation(layer(x))
        return x


class GCN(MLP):
    """The same layers with message passing in each: σ(D̂^-½ Â D̂^-½ X W + b), the appendix's encoder."""

    def forward(self, data: Data) -> Tensor:
        """Embeddings [N, hidden]."""
        adjacency = normalized_adjacency(data.edge_index, data.num_nodes)
        x: Tensor = data.x
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            x = self.activation(propagate(x @ layer.weight.T, adjacency) + layer.bias)
        return x


class Projector(nn.Module):
    """g of Eq. 1: Linear, ELU, Linear."""

    def __init__(self, hidden: int, projection: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first = glorot(hidden, projection, generator)
        self.second = glorot(projection, hidden, generator)

    def forward(self, h: Tensor) -> Tensor:
        """Projected embeddings [N, hidden]."""
        out: Tensor = self.second(elu(self.first(h)))
        return out


def glorot(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with Glorot weights and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


ENCODERS: dict[str, type[MLP]] = {"gcn": GCN, "mlp": MLP}

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "rrelu": lambda: nn.LeakyReLU(11 / 48),  # the mean of RReLU's slopes: the published code never samples them
    "elu": nn.ELU,
}
