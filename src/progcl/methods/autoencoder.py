"""Graph auto-encoders, plain and variational: embeddings whose inner products tell edges from other pairs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GAE, VGAE
from torch_geometric.nn.models.autoencoder import MAX_LOGSTD

from progcl.config.baselines import GaeOptions, VgaeOptions
from progcl.errors import InputError
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.negatives import NonEdges
from progcl.graph.views import Graph, View
from progcl.methods.base import Context, Method
from progcl.nn.heads import INITS


class Gae(Method):
    """Reconstruct the edges from inner products: PyG's `GAE`.

    J = -mean_{(i,j) ∈ E} log σ(zᵢᵀzⱼ) - mean_{(i,j) ∉ E} log(1 - σ(zᵢᵀzⱼ)),   Z = Â H W + b

    with H the encoder's output. The last layer has no activation, so that inner products may be negative: an encoder of
    one layer is the paper's two-layer network. As many pairs without an edge as edges are drawn in each step.

    Kipf, Welling: Variational Graph Auto-Encoders (2016).
    """

    Options = GaeOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.edges: Tensor = context.data.edge_index
        if not self.edges.size(1):
            raise InputError(f"method `{self.options.name}` reconstructs edges: the graph has none")
        self.non_edges = NonEdges(self.edges, int(context.data.num_nodes))
        self.autoencoder = GAE(nn.Identity())
        self.encoder = context.encoder()
        self.mean = self._head()

    def loss(self, batch: Batch) -> Tensor:
        """Binary cross entropy of edges and of drawn pairs, as PyG has it."""
        assert isinstance(batch, Graph), "edges of the whole graph are reconstructed"
        return self.reconstruction(self._embed(View(batch)))

    def reconstruction(self, z: Tensor) -> Tensor:
        """The loss of embeddings z [N, latent], with newly drawn negatives."""
        negatives = self.non_edges.sample(self.edges.size(1), self.context.generator("negatives"))
        loss: Tensor = self.autoencoder.recon_loss(z, self.edges, negatives)
        return loss

    def embed(self, graph: GraphInput) -> Tensor:
        """Z [N, latent]."""
        assert isinstance(graph, Graph)
        return graph.embed(self._embed, self.context.progress)

    def release(self) -> None:
        """Drop the training graph and its edges."""
        super().release()
        del self.edges, self.non_edges

    def _embed(self, view: View) -> Tensor:
        return _convolve(view, self.encoder(self.half_hop(view)), self.mean)

    def _head(self) -> nn.Linear:
        shape = self.context.config.encoder
        return INITS[shape.init](shape.hidden, self.options.latent or shape.hidden, self.context.generator("init"))


class Vgae(Gae):
    """The same with a normal distribution for every node, drawn towards the standard normal one: PyG's `VGAE`.

    J = reconstruction of Z + KL/N,   Z = M + ε ⊙ exp(S),   M = Â H W + b,   S = Â H W' + b',   ε ~ N(0, 1)

    KL = -½ mean_i Σ_d (1 + 2 S_id - M_id² - exp(2 S_id))

    Kipf, Welling: Variational Graph Auto-Encoders (2016).
    """

    Options = VgaeOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.autoencoder = VGAE(nn.Identity())
        self.log_std = self._head()

    def loss(self, batch: Batch) -> Tensor:
        """Reconstruction from drawn embeddings, and the divergence from the standard normal distribution."""
        assert isinstance(batch, Graph), "edges of the whole graph are reconstructed"
        view = View(batch)
        h = self.encoder(self.half_hop(view))
        mean = _convolve(view, h, self.mean)
        log_std = _convolve(view, h, self.log_std).clamp(max=MAX_LOGSTD)
        noise = torch.randn(mean.shape, generator=self.context.generator("noise")).to(mean.device)
        divergence: Tensor = self.autoencoder.kl_loss(mean, log_std)
        return self.reconstruction(mean + noise * log_std.exp()) + divergence / len(mean)


def _convolve(view: View, h: Tensor, linear: nn.Linear) -> Tensor:
    """Â H W + b: a graph convolution without activation."""
    return view.layer_input(1, h, last=True).propagate(linear.weight.T) + linear.bias
