"""BGRL: predict a momentum encoder's output for one view from the other, without negatives."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cosine_similarity
from torch.optim import AdamW, Optimizer

from progcl.config.methods import BgrlOptions
from progcl.graph.loader import Batch, GraphInput
from progcl.methods.base import Context, Method
from progcl.methods.schedules import cosine_decay, warmup_cosine
from progcl.nn.heads import Head
from progcl.nn.momentum import MomentumCopy


class Bgrl(Method):
    """Predict a momentum encoder's embeddings of one view from the other view, without negatives.

    J = 2 - mean_i cos(q(h₁ᵢ), t₂ᵢ) - mean_i cos(q(h₂ᵢ), t₁ᵢ), with h the
    online encoder's embeddings, q the predictor, and t the target encoder's embeddings, without gradient.

    The learning rate rises linearly, then falls by a cosine; the momentum rises to 1 by a cosine.

    Thakoor, Tallec, Azar, Azabou, Dyer, Munos, Veličković, Valko: Large-Scale Representation Learning on Graphs via
    Bootstrapping (2022).
    """

    Options = BgrlOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        shape = context.config.encoder
        self.encoder = context.encoder()
        self.target = MomentumCopy(context.encoder())
        self.predictor = Head(shape.hidden, shape.projection, context.generator("init"), batch_norm=False)

    def optimizer(self) -> Optimizer:
        """AdamW."""
        train = self.context.config.train
        return AdamW(self.trained_parameters(), train.lr, weight_decay=train.weight_decay)

    def lr_factor(self, progress: float) -> float:
        """Linear warm-up, then cosine decay."""
        return warmup_cosine(progress, self.options.warmup)

    def loss(self, batch: Batch) -> Tensor:
        """Predict each view's target embeddings from the other view."""
        rates = zip(self.options.drop_edges, self.options.drop_features, ("view1", "view2"), strict=True)
        views = [
            self.half_hop(batch.view(edges, columns, self.context.generator(name))) for edges, columns, name in rates
        ]
        q1, q2 = (self.predictor(self.encoder(view)) for view in views)
        t1, t2 = (self.target(view) for view in views)
        return 2 - cosine_similarity(q1, t2).mean() - cosine_similarity(q2, t1).mean()

    def after_step(self, progress: float) -> None:
        """Move the target network, less and less."""
        self.target.follow(self.encoder, 1 - (1 - self.options.momentum) * cosine_decay(progress))

    def embed(self, graph: GraphInput) -> Tensor:
        """Output of the online encoder [N, hidden]."""
        return graph.embed(self.encoder, self.context.progress)
