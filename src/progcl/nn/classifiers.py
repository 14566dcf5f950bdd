"""Networks from a graph view to classes of its nodes: MLP, GCN, GraphSAGE and GAT."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv

from progcl.config.schema import EncoderConfig
from progcl.graph.sparse import drop_entries
from progcl.graph.views import FullGraphInput, LayerInput
from progcl.nn.encoders import GCN, MLP, Dropout, EncoderInput, Sage
from progcl.nn.heads import INITS


class Classifier(MLP):
    """Layers of one width, and a last one, as wide as there are classes, without normalization and activation.

    Args:
        features: input width
        classes: output width
        shape: section `encoder`; its name counts for nothing here
        generator: draws the initial weights
        draws: what dropout draws from
        drop_input: whether dropout begins with the features, or with the first layer's output
    """

    width_factor = 1

    def __init__(
        self,
        features: int,
        classes: int,
        shape: EncoderConfig,
        generator: torch.Generator,
        draws: torch.Generator,
        drop_input: bool = True,
    ) -> None:
        linear = INITS[shape.init]
        sizes = (features, shape.hidden, shape.layers, shape.activation, generator, shape.norm)
        super().__init__(*sizes, None, shape.norm_last, linear)
        self.layers[-1] = linear(self.input_factor * shape.hidden, classes, generator)
        self.norms[-1] = nn.Identity()
        for norm in self.norms:
            if isinstance(norm, nn.BatchNorm1d):
                norm.momentum = 0.1  # torch's own: validation begins after the first epoch
        drop = Dropout(shape.dropout, draws) if shape.dropout else None
        self.drops = [drop if number or drop_input else None for number in range(shape.layers)]

    def layer(self, number: int, inputs: LayerInput) -> Tensor:
        """Output of one layer, [targets, width]; of the last, logits."""
        drop = self.drops[number]
        inputs = drop(inputs) if drop and self.training else inputs
        return self.affine(number, inputs) if self.is_last(number) else super().layer(number, inputs)

    def is_last(self, number: int) -> bool:
        """Whether a layer's output is the logits."""
        return number == len(self.layers) - 1


class GcnClassifier(Classifier, GCN):
    """Graph convolutions."""


class SageClassifier(Classifier, Sage):
    """GraphSAGE layers: a node beside the mean over its neighbors and itself."""


class GatClassifier(Classifier):
    """Attention layers, for full graphs; features are transformed before, so that sparse ones stay sparse.

    Args:
        heads: of every layer but the last, side by side
        output_heads: of the last layer, averaged; each has a bias of its own, as in the authors' code
        drop_attention: share of the attention coefficients that is dropped in training
    """

    def __init__(
        self,
        features: int,
        classes: int,
        shape: EncoderConfig,
        generator: torch.Generator,
        draws: torch.Generator,
        drop_input: bool = True,
        heads: int = 8,
        output_heads: int = 1,
        drop_attention: float = 0.0,
    ) -> None:
        super().__init__(features, classes * output_heads, shape, generator, draws, drop_input)
        inner = [Attention(shape.hidden // heads, heads, generator) for _ in range(shape.layers - 1)]
        self.attentions = nn.ModuleList([*inner, Attention(classes, output_heads, generator)])
        self.rate, self.draws = drop_attention, draws

    def affine(self, number: int, inputs: LayerInput) -> Tensor:
        """Heads side by side; in the last layer their mean."""
        layer, attention = self.layers[number], self.attentions[number]
        assert isinstance(layer, nn.Linear)
        assert isinstance(attention, Attention)
        assert isinstance(inputs, FullGraphInput), "attention reads all edges of a graph"
        attention.drop = None
        if self.rate and self.training:
            attention.drop = self.rate, int(torch.randint(2**31, (), generator=self.draws))
        out = inputs.convolve(attention, layer.weight.T) + layer.bias
        return out.view(len(out), attention.heads, -1).mean(dim=1) if self.is_last(number) else out


class Attention(GATConv):  # type: ignore[misc]
    """PyG's attention layer without its linear map and bias; its dropout is a function of a random key.

    Args:
        width: of each head
        heads: number of heads, side by side
        generator: draws the initial weights
    """

    def __init__(self, width: int, heads: int, generator: torch.Generator) -> None:
        with torch.random.fork_rng(devices=[]):  # PyG draws first values from the global generator
            super().__init__(width * heads, width, heads, add_self_loops=False, bias=False)
        self.lin = nn.Identity()
        bound = (6 / (heads + width)) ** 0.5  # Glorot's, as PyG has it
        for weight in (self.att_src, self.att_dst):
            nn.init.uniform_(weight, -bound, bound, generator=generator)
        self.drop: tuple[float, int] | None = None  # rate and key

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: Tensor | None,
        edge_attr: Tensor | None,
        index: Tensor,
        ptr: Tensor | None,
        dim_size: int | None,
    ) -> Tensor:
        """Attention coefficients [E, heads]."""
        alpha: Tensor = super().edge_update(alpha_j, alpha_i, edge_attr, index, ptr, dim_size)
        if self.drop is None:
            return alpha
        return drop_entries(alpha, torch.arange(len(alpha), device=alpha.device), *self.drop)


class Trunk(nn.Module):
    """A network without its last layer, whose outputs are embeddings [N, hidden]."""

    def __init__(self, network: Classifier) -> None:
        super().__init__()
        self.network = network
        self.layers = network.layers[:-1]

    def layer(self, number: int, inputs: LayerInput) -> Tensor:
        """Output of one layer."""
        return self.network.layer(number, inputs)

    def forward(self, view: EncoderInput) -> Tensor:
        """Embeddings of all nodes of a view."""
        x: Tensor | None = None
        for number in range(len(self.layers)):
            x = self.layer(number, view.layer_input(number, x, last=False))
        assert x is not None
        return x
