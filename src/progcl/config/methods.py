"""Options of methods: one frozen dataclass each, and the table of all methods by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from progcl.config.abilities import ABILITIES as ABILITIES
from progcl.config.abilities import HalfHopOptions
from progcl.config.abilities import MethodOptions as MethodOptions
from progcl.config.baselines import ColesOptions, GaeOptions, GmiOptions, VgaeOptions
from progcl.config.images import SimclrOptions
from progcl.config.options import Entry
from progcl.config.supervised import FastGcnOptions, GatOptions, GcnOptions, MlpOptions, SageSupervisedOptions
from progcl.config.walks import DeepWalkFeaturesOptions, DeepWalkOptions, Node2VecOptions
from progcl.errors import InputError, in_range


@dataclass(frozen=True)
class ViewOptions(HalfHopOptions):
    """Methods that contrast two augmented views of the graph.

    Args:
        drop_edges: share of edges dropped in view 1 and in view 2
        drop_features: share of feature columns dropped in view 1 and in view 2
    """

    drop_edges: tuple[float, float] = (0.3, 0.4)
    drop_features: tuple[float, float] = (0.1, 0.2)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("drop_edges", "drop_features"):
            for rate in getattr(self, name):
                in_range(name, rate, 0, 1, "a share: 0 keeps everything, 1 drops everything")


@dataclass(frozen=True)
class HopViewOptions(ViewOptions):
    """Methods whose views can be rows of a hop table.

    Args:
        walk: with encoder hops: length of the random walk from a node to the node whose row is its view
    """

    walk: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("walk", self.walk, 0, hint="`progcl embed` uses 2 where features are few")


@dataclass(frozen=True)
class GraceOptions(HopViewOptions):
    """GRACE, which has no options beside its views."""

    name: str = "grace"
    supports = frozenset(ABILITIES) - {"images"}


@dataclass(frozen=True)
class GcaOptions(ViewOptions):
    """GCA.

    Args:
        centrality: what makes a node important
    """

    name: str = "gca"
    centrality: Literal["degree", "pagerank", "eigenvector"] = "degree"
    supports = frozenset({"inductive", "processes", "miner", "anchors", "weights"})


@dataclass(frozen=True)
class MeritOptions(ViewOptions):
    """MERIT.

    Args:
        add_edges: random edges added to view 1, as a share of the graph's
        teleport: α of the personalized PageRank whose largest entries are the edges of view 2
        strongest: how many of them a node keeps
        threshold: keep all entries of at least this size instead, as MERIT does with 1e-4; 0 keeps the strongest
        windows: steps of an epoch, each on a window of consecutive nodes and the edges between them; 0 is one step on
            the whole graph
        window: nodes of a window
        momentum: share of the target network that stays in a step
        balance: β, weight of the contrast between views; the rest is between networks
        mined: which negatives the miner treats: those between and within views, those of the target network, or both
    """

    name: str = "merit"
    add_edges: float = 0.1
    teleport: float = 0.05
    strongest: int = 32
    threshold: float = 0.0
    windows: int = 0
    window: int = 2000
    momentum: float = 0.8
    balance: float = 0.5
    mined: Literal["views", "networks", "both"] = "both"
    supports = frozenset({"processes", "miner", "anchors", "weights"})

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("add_edges", self.add_edges, 0, 1, "a share of the graph's edges")
        in_range("teleport", self.teleport, 0.001, 1, "MERIT uses 0.05")
        in_range("strongest", self.strongest, 1)
        in_range("threshold", self.threshold, 0, 1, "MERIT uses 1e-4; 0 keeps the strongest")
        in_range("windows", self.windows, 0, hint="MERIT uses 4; 0 is the whole graph")
        in_range("window", self.window, 2, hint="MERIT uses 2000")
        in_range("momentum", self.momentum, 0, 1, "MERIT uses 0.8")
        in_range("balance", self.balance, 0, 1, "MERIT uses 0.5 to 0.7")


@dataclass(frozen=True)
class BgrlOptions(HopViewOptions):
    """BGRL.

    Args:
        momentum: share of the target network that stays in the first step; rises to 1 by a cosine schedule
        warmup: share of the run in which the step size rises from 0, before it falls by a cosine schedule
    """

    name: str = "bgrl"
    momentum: float = 0.99
    warmup: float = 0.1
    supports = frozenset({"batches", "inductive", "hop-table", "weights"})

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("momentum", self.momentum, 0, 1, "BGRL uses 0.99")
        in_range("warmup", self.warmup, 0, 1, "BGRL uses 0.1")


@dataclass(frozen=True)
class NeighborsOptions(HalfHopOptions):
    """Neighbors as positives.

    Args:
        steps: random steps that are taken from every seed node of a batch; the nodes on the way join the batch
        drop_positives: share of the positives of a step that count as negatives instead
        objective: infonce contrasts, with any miner; sigmoid takes each pair by itself, without a miner
        holdout: share of the edges that are kept from training, to judge by
    """

    name: str = "neighbors"
    objective: Literal["infonce", "sigmoid"] = "infonce"
    steps: int = 1
    drop_positives: float = 0.4
    holdout: float = 0.0
    supports = frozenset(ABILITIES) - {"images"}

    @property
    def takes_miner(self) -> bool:
        """A miner weighs negatives against each other, which only InfoNCE does."""
        return self.objective == "infonce"

    def require(self, ability: str) -> None:
        """Raise `InputError` if the method, with this objective, does not support what a run asks for."""
        if ability == "miner" and not self.takes_miner:
            hint = "set --method.objective infonce, or --miner.name none"
            raise InputError(f"the sigmoid loss of `{self.name}` takes no miner", hint)
        super().require(ability)

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("steps", self.steps, 1, hint="1 takes neighbors")
        in_range("drop_positives", self.drop_positives, 0, 0.99, "a share, such as 0.4")
        in_range("holdout", self.holdout, 0, 0.5, "a share, such as 0.1")


@dataclass(frozen=True)
class SignaOptions(HalfHopOptions):
    """SIGNA.

    Args:
        drop_positives: α, share of the edges whose ends count as negatives in a step, in each direction
    """

    name: str = "signa"
    drop_positives: float = 0.4
    supports = frozenset({"inductive"})

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("drop_positives", self.drop_positives, 0, 1, "SIGNA uses 0.3 to 0.95")


@dataclass(frozen=True)
class DgiOptions(HalfHopOptions):
    """Deep Graph Infomax, which has no options of its own."""

    name: str = "dgi"
    supports = frozenset({"inductive", "weights"})


@dataclass(frozen=True)
class MvgrlOptions(HalfHopOptions):
    """MVGRL.

    Args:
        teleport: α of the personalized PageRank that is the second view
        strongest: how many of its largest entries a node keeps as edges
        sample: nodes that the loss of a step sums over, sampled anew in larger graphs
    """

    name: str = "mvgrl"
    teleport: float = 0.2
    strongest: int = 32
    sample: int = 8000
    supports = frozenset({"inductive", "weights"})

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("teleport", self.teleport, 0.001, 1, "MVGRL uses 0.2")
        in_range("strongest", self.strongest, 1)
        in_range("sample", self.sample, 2, hint="MVGRL uses 4 blocks of 2000")


@dataclass(frozen=True)
class SageOptions(HalfHopOptions):
    """Unsupervised GraphSAGE.

    Args:
        steps: random steps that are taken from every seed node of a batch; the nodes on the way are its positives
        negatives: Q, weight of the noise, as a number of drawn nodes for each positive
    """

    name: str = "sage"
    steps: int = 5
    negatives: int = 20
    supports = frozenset({"batches", "inductive", "hop-table", "weights"})

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("steps", self.steps, 1, hint="GraphSAGE uses 5")
        in_range("negatives", self.negatives, 1, hint="GraphSAGE uses 20")


@dataclass(frozen=True)
class RawOptions(MethodOptions):
    """The features as they are, which have no options."""

    name: str = "raw"
    supports = frozenset({"inductive", "images", "weights"})


@dataclass(frozen=True)
class PropagatedOptions(MethodOptions):
    """Propagated features.

    Args:
        hops: how often they are propagated
        rank: singular vectors of the features to keep
    """

    name: str = "propagated"
    hops: int = 2
    rank: int = 256
    supports = frozenset({"inductive", "weights"})

    def __post_init__(self) -> None:
        in_range("hops", self.hops, 0)
        in_range("rank", self.rank, 1)


@dataclass(frozen=True)
class HopsOptions(MethodOptions):
    """Features of several hops, with the options of section `hops`."""

    name: str = "hops"
    supports = frozenset({"inductive", "weights"})


@dataclass(frozen=True)
class SpectralOptions(MethodOptions):
    """Spectral vectors.

    Args:
        dim: number of vectors
    """

    name: str = "spectral"
    dim: int = 128
    supports = frozenset({"weights"})

    def __post_init__(self) -> None:
        in_range("dim", self.dim, 1)


@dataclass(frozen=True)
class WalkVectorsOptions(SpectralOptions):
    """Walk vectors, as many as `dim` says."""

    name: str = "walk-vectors"


@dataclass(frozen=True)
class RandomInitOptions(MethodOptions):
    """The untrained encoder, which has no options of its own."""

    name: str = "random-init"
    supports = frozenset({"inductive", "hop-table", "weights"})


METHODS: dict[str, Entry[MethodOptions]] = {
    "grace": Entry(GraceOptions, "progcl.methods.grace:Grace"),
    "gca": Entry(GcaOptions, "progcl.methods.grace:Gca"),
    "merit": Entry(MeritOptions, "progcl.methods.merit:Merit"),
    "bgrl": Entry(BgrlOptions, "progcl.methods.bgrl:Bgrl"),
    "neighbors": Entry(NeighborsOptions, "progcl.methods.neighbors:Neighbors"),
    "signa": Entry(SignaOptions, "progcl.methods.signa:Signa"),
    "dgi": Entry(DgiOptions, "progcl.methods.dgi:Dgi"),
    "mvgrl": Entry(MvgrlOptions, "progcl.methods.mvgrl:Mvgrl"),
    "sage": Entry(SageOptions, "progcl.methods.sage:Sage"),
    "gae": Entry(GaeOptions, "progcl.methods.autoencoder:Gae"),
    "vgae": Entry(VgaeOptions, "progcl.methods.autoencoder:Vgae"),
    "coles": Entry(ColesOptions, "progcl.methods.coles:Coles"),
    "gmi": Entry(GmiOptions, "progcl.methods.gmi:Gmi"),
    "simclr": Entry(SimclrOptions, "progcl.methods.simclr:Simclr"),
    "raw": Entry(RawOptions, "progcl.methods.features:Raw"),
    "propagated": Entry(PropagatedOptions, "progcl.methods.features:Propagated"),
    "hops": Entry(HopsOptions, "progcl.methods.features:Hops"),
    "spectral": Entry(SpectralOptions, "progcl.methods.features:Spectral"),
    "walk-vectors": Entry(WalkVectorsOptions, "progcl.methods.features:WalkVectors"),
    "random-init": Entry(RandomInitOptions, "progcl.methods.features:RandomInit"),
    "deepwalk": Entry(DeepWalkOptions, "progcl.methods.walks:DeepWalk"),
    "deepwalk-features": Entry(DeepWalkFeaturesOptions, "progcl.methods.walks:DeepWalkFeatures"),
    "node2vec": Entry(Node2VecOptions, "progcl.methods.walks:Node2Vec"),
    "mlp": Entry(MlpOptions, "progcl.methods.supervised:Mlp"),
    "gcn": Entry(GcnOptions, "progcl.methods.supervised:Gcn"),
    "gat": Entry(GatOptions, "progcl.methods.supervised:Gat"),
    "sage-supervised": Entry(SageSupervisedOptions, "progcl.methods.supervised:SageSupervised"),
    "fastgcn": Entry(FastGcnOptions, "progcl.methods.supervised:FastGcn"),
}
