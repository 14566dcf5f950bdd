"""Options of every miner: one frozen dataclass each, which also checks the arguments of the miner's class."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from progcl.config.options import Entry, Options
from progcl.errors import InputError, in_range


@dataclass(frozen=True)
class MinerOptions(Options):
    """What every miner has.

    Args:
        name: a name that `progcl ls miners` lists, none is plain InfoNCE; or your own as package.module:Class
        others: options that other miners take when a comparison or the command line names them in this one's place
    """

    others: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def idle_epochs(self) -> float:
        """How many epochs from the first on are plain InfoNCE."""
        return max(0, getattr(self, "start_epoch", 0) - 1)


@dataclass(frozen=True)
class NoMinerOptions(MinerOptions):
    """Plain InfoNCE."""

    name: str = "none"

    @property
    def idle_epochs(self) -> float:
        """All."""
        return math.inf


@dataclass(frozen=True)
class OwnMinerOptions(MinerOptions):
    """A miner of your own.

    Args:
        options: by name; the class gets these and no others
    """

    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProGCLWeightOptions(MinerOptions):
    """ProGCL-weight.

    Args:
        start_epoch: E, the epoch at which the mixture is fitted
        estimator: of p(true | s): beta, gaussian, random, tuned, oracle (labels), or package.module:Class
        prior: w_init, initial weight of the false negatives' component
        iterations: I, steps of EM at most
        tol: EM stops once the mean log-likelihood changes by less; with 0, of beta mixtures once no parameter changes
        require_two_modes: keep plain InfoNCE where a second component adds next to nothing, which is not in the paper
        samples: M', similarities drawn per anchor for the fit
        variant: paper, or released to do what the authors' code does
        true_component: what marks the true negatives' component, the smaller mean or the larger weight
    """

    name: str = "progcl-weight"
    start_epoch: int = 400
    estimator: str = "beta"
    prior: float = 0.05
    iterations: int = 10
    tol: float = 0.0
    require_two_modes: bool = False
    samples: int = 100
    variant: Literal["paper", "released"] = "paper"
    true_component: Literal["mean", "weight"] = "mean"

    def __post_init__(self) -> None:
        in_range("start_epoch", self.start_epoch, 0)
        in_range("prior", self.prior, 0.001, 0.999, "the paper uses 0.01 to 0.25")
        in_range("iterations", self.iterations, 1)
        in_range("tol", self.tol, 0, 1, "nats per similarity, such as 1e-6; 0 is convergence alone")
        in_range("samples", self.samples, 1)
        if self.variant not in ("paper", "released"):
            raise InputError(f"unknown variant `{self.variant}`", "known: paper, released")


@dataclass(frozen=True)
class ProGCLMixOptions(ProGCLWeightOptions):
    """ProGCL-mix.

    Args:
        hardest: N', negatives to mix
        synthetic: m, negatives made per anchor
    """

    name: str = "progcl-mix"
    hardest: int = 1000
    synthetic: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("hardest", self.hardest, 1)
        in_range("synthetic", self.synthetic, 1)


@dataclass(frozen=True)
class DCLOptions(MinerOptions):
    """DCL.

    Args:
        class_prior: τ⁺, probability of a random node to be of the anchor's class
    """

    name: str = "dcl"
    class_prior: float = 0.1

    def __post_init__(self) -> None:
        in_range("class_prior", self.class_prior, 0, 0.99, "the probability of two nodes to share a class, such as 0.1")


@dataclass(frozen=True)
class HCLOptions(DCLOptions):
    """HCL.

    Args:
        concentration: β, how much more hard negatives count
    """

    name: str = "hcl"
    concentration: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("concentration", self.concentration, 0, 100, "the original uses 0.5 to 2")


class RingWidth(NamedTuple):
    """Quantiles of the similarities that bound a ring, and the epochs in which it narrows to them."""

    low: float
    high: float
    anneal: int


RINGS = {
    "hard": RingWidth(0.9, 0.99, 100),  # the tenth that is most similar, without the tenth of it next to the anchor
    "middle": RingWidth(0.1, 0.9, 0),
}


@dataclass(frozen=True)
class RingOptions(MinerOptions):
    """Ring.

    Args:
        keep: hard is the original's ring, quantiles 0.9 to 0.99 as of epoch 100; middle leaves out the easiest and the
            hardest tenth
        low: quantile of the anchor's similarities below which negatives are left out; null is that of `keep`
        high: quantile above which they are left out; null is that of `keep`
        anneal: epochs in which the ring narrows to its width; null is that of `keep`, and 0 where a quantile is given
    """

    name: str = "ring"
    keep: Literal["hard", "middle"] = "hard"
    low: float | None = None
    high: float | None = None
    anneal: int | None = None

    @property
    def width(self) -> RingWidth:
        """The width that `keep` names, with what is given in its place."""
        width = RINGS[self.keep]
        is_own = self.low is not None or self.high is not None
        return RingWidth(
            width.low if self.low is None else self.low,
            width.high if self.high is None else self.high,
            (0 if is_own else width.anneal) if self.anneal is None else self.anneal,
        )

    def __post_init__(self) -> None:
        if self.keep not in RINGS:
            raise InputError(f"unknown ring `{self.keep}`", f"known: {', '.join(RINGS)}")
        low, high, anneal = self.width
        in_range("low", low, 0, 1, "a share of the negatives, such as 0.9")
        in_range("high", high, 0, 1, "a share of the negatives, such as 0.99")
        in_range("anneal", anneal, 0)
        if low >= high:
            hint = "such as 0.9 and 0.99"
            raise InputError(f"`low` needs to be below `high` (got {low:g} and {high:g})", hint)


@dataclass(frozen=True)
class MoCHiOptions(MinerOptions):
    """MoCHi.

    Args:
        start_epoch: end of the warm-up
        hardest: N', negatives to mix
        synthetic: m, negatives mixed of two
        with_anchor: m', negatives mixed with the anchor itself
    """

    name: str = "mochi"
    start_epoch: int = 0
    hardest: int = 1024
    synthetic: int = 1024
    with_anchor: int = 128

    def __post_init__(self) -> None:
        in_range("hardest", self.hardest, 1)
        for name in ("start_epoch", "synthetic", "with_anchor"):
            in_range(name, getattr(self, name), 0)


MINER_ENTRIES: dict[str, Entry[MinerOptions]] = {
    "none": Entry(NoMinerOptions, "progcl.miners.base:Miner"),
    "progcl-weight": Entry(ProGCLWeightOptions, "progcl.miners.progcl:ProGCLWeight"),
    "progcl-mix": Entry(ProGCLMixOptions, "progcl.miners.progcl:ProGCLMix"),
    "dcl": Entry(DCLOptions, "progcl.miners.debiased:DCL"),
    "hcl": Entry(HCLOptions, "progcl.miners.debiased:HCL"),
    "ring": Entry(RingOptions, "progcl.miners.ring:Ring"),
    "mochi": Entry(MoCHiOptions, "progcl.miners.mochi:MoCHi"),
}
