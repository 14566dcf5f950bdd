"""Encoders from a graph view to node embeddings: GCN, GraphSAGE with residuals, MLPs without message passing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn

from progcl.graph.views import LayerInput
from progcl.nn.heads import MakeLinear, glorot_linear
from progcl.registry import pick


class EncoderInput(Protocol):
    """A view of a graph, or of a batch."""

    def layer_input(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """Input of layer `number`; x is the previous layer's output, None for the features.

        The `last` layer has no targets beside the nodes to embed.
        """


class Dropout:
    """Drops entries of a layer's input, by a random key that is drawn anew for every layer of every step.

    Args:
        rate: share of the entries that is dropped
        generator: draws the keys
    """

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        self.rate = rate
        self.generator = generator

    def __call__(self, inputs: LayerInput) -> LayerInput:
        """The input of a layer with entries dropped."""
        return inputs.dropout(self.rate, int(torch.randint(2**31, (), generator=self.generator)))


class MLP(nn.Module):
    """Linear layers, each followed by a normalization and an activation; inner layers have twice the output's width.

    Args:
        features: input width
        hidden: output width
        layers: number of layers
        activation: a name of `ACTIVATIONS`
        generator: draws the initial weights
        norm: a name of `NORMS`: what normalizes the output of every linear map
        dropout: drops entries of every layer's input in training
        norm_last: normalize after the activation instead of before it
        linear: makes the linear layers with their initial weights

    Raises `InputError` for an unknown activation or norm.
    """

    width_factor = 2  # width of the inner layers, in multiples of `hidden`
    input_factor = 1  # input width of a layer, in multiples of the previous layer's width
    activate_last = True  # whether the last layer has an activation; a method may do without

    def __init__(
        self,
        features: int,
        hidden: int,
        layers: int,
        activation: str,
        generator: torch.Generator,
        norm: str = "none",
        dropout: Dropout | None = None,
        norm_last: bool = False,
        linear: MakeLinear = glorot_linear,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm_last = norm_last
        widths = [features, *[self.width_factor * hidden] * (layers - 1), hidden]
        sizes = [(self.input_factor * inputs, outputs) for inputs, outputs in pairwise(widths)]
        self.layers = nn.ModuleList(linear(*size, generator) for size in sizes)
        self.norms = nn.ModuleList(pick(NORMS, norm, "norm")(width) for width in widths[1:])
        self.activation = pick(ACTIVATIONS, activation, "activation")()

    def forward(self, view: EncoderInput) -> Tensor:
        """Embeddings [N, hidden]."""
        x, last = None, len(self.layers) - 1
        for number in range(len(self.layers)):
            inputs = view.layer_input(number, x, number == last)
            x = self.layer(number, self.dropout(inputs) if self.dropout and self.training else inputs)
        assert x is not None
        return x

    def layer(self, number: int, inputs: LayerInput) -> Tensor:
        """Output of one layer, [targets, width]."""
        out = self.affine(number, inputs)
        is_active = self.activate_last or number < len(self.layers) - 1
        activation = self.activation if is_active else nn.Identity()
        steps = (activation, self.norms[number]) if self.norm_last else (self.norms[number], activation)
        for step in steps:
            out = step(out)
        return out

    def affine(self, number: int, inputs: LayerInput) -> Tensor:
        """Output of one layer before normalization and activation."""
        layer = self.layers[number]
        assert isinstance(layer, nn.Linear)
        return self.linear(inputs, layer.weight.T) + layer.bias

    def linear(self, inputs: LayerInput, weight: Tensor) -> Tensor:
        """X W: no message passing."""
        return inputs.transform(weight)


class SkipMLP(MLP):
    """MLP plus linear skip connection; at initialization a pure rotation, as the last layer's weights are 0."""

    def __init__(
        self,
        features: int,
        hidden: int,
        layers: int,
        activation: str,
        generator: torch.Generator,
        norm: str = "none",
        dropout: Dropout | None = None,
        norm_last: bool = False,
        linear: MakeLinear = glorot_linear,
    ) -> None:
        super().__init__(features, hidden, layers, activation, generator, norm, dropout, norm_last, linear)
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        rotation = nn.init.orthogonal_(torch.empty(features, hidden), generator=generator)
        self.straight = nn.Parameter(rotation * max(1.0, features / hidden) ** 0.5)  # preserves row norms on average

    def forward(self, view: EncoderInput) -> Tensor:
        """Embeddings [N, hidden]."""
        return super().forward(view) + view.layer_input(0, None, last=True).transform(self.straight)


class SvdMLP(MLP):
    """MLP on features that an SVD has reduced, or on other rows of a hop table; all layers have one width."""

    width_factor = 1


class GCN(MLP):
    """σ(D̂^-½ Â D̂^-½ X W + b) in every layer (Kipf and Welling, Semi-Supervised Classification with GCNs, 2017)."""

    def linear(self, inputs: LayerInput, weight: Tensor) -> Tensor:
        """D̂^-½ Â D̂^-½ X W."""
        return inputs.propagate(weight)


class Sage(MLP):
    """GraphSAGE-GCN with residuals, all layers of one width: σ([D̂⁻¹ Â X ; X] W + b), for large graphs.

    Hamilton et al., Inductive Representation Learning on Large Graphs (2017).
    """

    width_factor = 1
    input_factor = 2

    def linear(self, inputs: LayerInput, weight: Tensor) -> Tensor:
        """[D̂⁻¹ Â X ; X] W."""
        neighbor_weight, own_weight = weight.chunk(2)
        return inputs.propagate(neighbor_weight, mean=True) + inputs.transform(own_weight)


ENCODERS: dict[str, type[MLP]] = {"gcn": GCN, "sage": Sage, "mlp": MLP, "svd": SvdMLP, "hops": SkipMLP}


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "rrelu": lambda: nn.LeakyReLU(11 / 48),  # the mean of RReLU's slopes: the published code never samples them
    "elu": nn.ELU,
}


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "batch": lambda width: nn.BatchNorm1d(width, momentum=0.01),  # BGRL: running statistics decay by 0.99
    "layer": nn.LayerNorm,
}
