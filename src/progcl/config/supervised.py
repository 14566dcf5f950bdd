"""Options of networks that are trained with labels: what embeddings without labels are compared with."""

from __future__ import annotations

from dataclasses import dataclass

from progcl.config.abilities import MethodOptions
from progcl.errors import in_range


@dataclass(frozen=True)
class SupervisedOptions(MethodOptions):
    """Networks that are trained with labels, one for each split.

    Args:
        patience: epochs without a better validation accuracy or loss after which a split is at its end; null for none
        drop_input: apply `encoder.dropout` to the features too, not only between layers
    """

    patience: int | None = 100
    drop_input: bool = True
    needs_labels = True
    supports = frozenset({"inductive"})

    def __post_init__(self) -> None:
        if self.patience is not None:
            in_range("patience", self.patience, 1, hint="GCN uses 10, GAT 100")


@dataclass(frozen=True)
class MlpOptions(SupervisedOptions):
    """A multi-layer perceptron, which has no options of its own."""

    name: str = "mlp"
    supports = frozenset({"inductive", "weights"})


@dataclass(frozen=True)
class GcnOptions(SupervisedOptions):
    """GCN, which has no options of its own."""

    name: str = "gcn"
    supports = frozenset({"batches", "inductive", "weights"})


@dataclass(frozen=True)
class GatOptions(SupervisedOptions):
    """GAT.

    Args:
        heads: attention heads of every layer but the last, side by side in `encoder.hidden`
        output_heads: attention heads of the last layer, averaged
        drop_attention: share of the attention coefficients that is dropped in training
    """

    name: str = "gat"
    heads: int = 8
    output_heads: int = 1
    drop_attention: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("heads", self.heads, 1, hint="GAT uses 8")
        in_range("output_heads", self.output_heads, 1, hint="GAT uses 1, or 8 on PubMed")
        in_range("drop_attention", self.drop_attention, 0, 0.95, "GAT uses 0.6")


@dataclass(frozen=True)
class SageSupervisedOptions(SupervisedOptions):
    """Supervised GraphSAGE, which has no options of its own."""

    name: str = "sage-supervised"
    supports = frozenset({"batches", "inductive", "weights"})


@dataclass(frozen=True)
class FastGcnOptions(SupervisedOptions):
    """FastGCN.

    Args:
        samples: nodes drawn for each layer of a batch
    """

    name: str = "fastgcn"
    samples: int = 400
    supports = frozenset({"batches", "inductive"})

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("samples", self.samples, 1, hint="FastGCN uses up to 400")
