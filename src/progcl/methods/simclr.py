"""SimCLR: contrast every image in two augmented views with all other images of a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from progcl.config.images import SimclrOptions
from progcl.errors import InputError
from progcl.graph.images import ImageBatch, ImageSet
from progcl.graph.loader import Batch, GraphInput
from progcl.losses import InfoNCE
from progcl.methods.base import Context, Method
from progcl.methods.schedules import warmup_cosine
from progcl.nn.heads import glorot_linear
from progcl.nn.images import ResNet


class Simclr(Method):
    """InfoNCE between two random views of every image: crops, flips and changes of color.

    SimCLR's NT-Xent has the negatives of Eq. 2, those of both views, and so any miner treats them. Both views pass the
    network as one batch. The learning rate rises linearly, then falls by a cosine. The paper's LARS, for batches of
    thousands of images, is Adam here.

    Chen, Kornblith, Norouzi, Hinton: A Simple Framework for Contrastive Learning of Visual Representations (2020).
    """

    Options = SimclrOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        graph, shape, init = context.graph, context.config.encoder, context.generator("init")
        if not isinstance(graph, ImageSet):
            raise InputError(f"method `{self.options.name}` reads images, not graphs", "set --data.name cifar10")
        self.encoder = ResNet(graph.shape[0], shape.hidden, self.options.blocks, self.options.stride, init)
        self.projector = nn.Sequential(
            glorot_linear(shape.hidden, shape.hidden, init),
            nn.ReLU(),
            glorot_linear(shape.hidden, shape.projection, init),
        )
        self.criterion = context.criterion(InfoNCE)

    def lr_factor(self, progress: float) -> float:
        """Linear warm-up, then cosine decay."""
        return warmup_cosine(progress, self.options.warmup)

    def loss(self, batch: Batch | ImageBatch) -> Tensor:
        """Contrast two views of the images of a batch."""
        assert isinstance(batch, ImageBatch)
        views = [batch.view(self.options, self.context.generator(name)) for name in ("view1", "view2")]
        h1, h2 = self.projector(self.encoder(torch.cat(views))).chunk(2)
        loss: Tensor = self.criterion(h1, h2, nodes=batch.seeds)
        return loss

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output [N, hidden], before the projector."""
        assert isinstance(graph, ImageSet)
        return graph.embed(self.encoder, self.context.progress)
