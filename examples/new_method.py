"""A method of your own: CCA-SSG as one class with its options, and a run with it.

python examples/new_method.py
progcl train csbm --method.name examples.new_method:CcaSsg --train.epochs 20
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from progcl import fit, load_config
from progcl.config.methods import ViewOptions
from progcl.graph.loader import Batch, GraphInput
from progcl.methods import Context, Method


@dataclass(frozen=True)
class CcaSsgOptions(ViewOptions):
    """CCA-SSG.

    Args:
        decorrelation: λ, weight of the decorrelation of dimensions
    """

    name: str = "cca-ssg"
    decorrelation: float = 1e-3
    supports = frozenset({"batches", "inductive"})


class CcaSsg(Method):
    """Make two views agree and the dimensions of each view uncorrelated, without negatives.

    J = ‖z₁ - z₂‖² + λ (‖z₁ᵀz₁ - I‖² + ‖z₂ᵀz₂ - I‖²), with the columns of z standardized and divided by √N.

    Zhang, Wu, Yan, Wipf, Yu: From Canonical Correlation Analysis to Self-supervised Graph Neural Networks (2021).
    """

    Options = CcaSsgOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.encoder = context.encoder()

    def loss(self, batch: Batch) -> Tensor:
        """Invariance between the views, and decorrelation within each."""
        rates = zip(self.options.drop_edges, self.options.drop_features, ("view1", "view2"), strict=True)
        views = (batch.view(edges, columns, self.context.generator(name)) for edges, columns, name in rates)
        z1, z2 = (standardize(self.encoder(view)) for view in views)
        identity = torch.eye(z1.size(1), device=z1.device)
        decorrelation = sum((z.T @ z - identity).square().sum() for z in (z1, z2))
        return (z1 - z2).square().sum() + self.options.decorrelation * decorrelation

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output [N, hidden]."""
        return graph.embed(self.encoder, self.context.progress)


def standardize(h: Tensor) -> Tensor:
    """Columns of mean 0 and norm 1."""
    return torch.nn.functional.normalize(h - h.mean(dim=0), dim=0)


def main() -> None:
    """Train on a small graph with the class by its import path."""
    options = {"method.name": f"{__name__}:CcaSsg", "method.decorrelation": 0.01, "data.nodes": 500}
    result = fit(load_config("csbm", {**options, "train.epochs": 30, "probe.splits": 5}))
    print(f"accuracy {result.score}, loss {result.losses[0]:.3f} -> {result.losses[-1]:.3f}")


if __name__ == "__main__":
    main()
