"""Every option of a run: frozen dataclasses, whose docstrings are the command line's help."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from progcl.errors import InputError, in_range


@dataclass(frozen=True)
class DataConfig:
    """The graph.

    Args:
        name: a name that `progcl ls data` lists
        normalize: scale each row of the features to absolute sum 1
        inductive: train on the data's training nodes alone; the others are met only when they are embedded
        graph: file: your own graph; `progcl embed` takes the same ones
        features_from: file: .npy or table with the features, if the graph's file has none
        labels_from: file: the same with the classes
        mapped: csbm: .npy file to map the features from instead of holding them in memory; written if it is not there
        neighbors: digits: neighbors per image
        nodes: csbm: number of nodes
        classes: csbm: number of classes
        degree: csbm: mean degree
        homophily: csbm: share of edges that stay inside a class
        features: csbm: number of features
        signal: csbm: distance of the class means from the origin, in standard deviations of the noise
        seed: csbm: seed of the graph
    """

    name: str = "digits"
    normalize: bool = True
    inductive: bool = False
    graph: str | None = None
    features_from: str | None = None
    labels_from: str | None = None
    mapped: str | None = None
    neighbors: int | None = None
    nodes: int | None = None
    classes: int | None = None
    degree: float | None = None
    homophily: float | None = None
    features: int | None = None
    signal: float | None = None
    seed: int | None = None

    def options(self) -> dict[str, Any]:
        """The options that were given for this one data set."""
        common = {"name", "normalize", "inductive"}
        return {key: value for key, value in asdict(self).items() if key not in common and value is not None}


@dataclass(frozen=True)
class MethodConfig:
    """The base method and its two views.

    Args:
        name: a name that `progcl ls methods` lists
        centrality: gca: what makes a node important
        drop_edges: share of edges dropped in view 1 and in view 2
        drop_features: share of feature columns dropped in view 1 and in view 2
        walk: encoder hops: random steps from a node to the one that stands for it in a view
        add_edges: merit: random edges added to view 1, as a share of the graph's
        teleport: merit: α of the personalized PageRank whose strongest links are the edges of view 2
        strongest: merit: how many of them a node keeps
        momentum: merit: how much of the target network stays in a step
        balance: merit: β, share of the contrast between views; the rest is between networks
        mined: merit: which negatives the miner treats, those between and within views, or those of the target network
    """

    name: str = "grace"
    centrality: Literal["degree", "pagerank", "eigenvector"] = "degree"
    drop_edges: tuple[float, float] = (0.3, 0.4)
    drop_features: tuple[float, float] = (0.1, 0.2)
    walk: int = 0
    add_edges: float = 0.1
    teleport: float = 0.05
    strongest: int = 32
    momentum: float = 0.8
    balance: float = 0.5
    mined: Literal["views", "networks", "both"] = "both"

    def __post_init__(self) -> None:
        in_range("method.add_edges", self.add_edges, 0, 1, "a share of the graph's edges")
        in_range("method.teleport", self.teleport, 0.001, 1, "MERIT uses 0.05")
        in_range("method.strongest", self.strongest, 1)
        in_range("method.walk", self.walk, 0, hint="`progcl embed` uses 2 where features are few")
        in_range("method.momentum", self.momentum, 0, 1, "MERIT uses 0.8")
        in_range("method.balance", self.balance, 0, 1, "MERIT uses 0.5 to 0.7")
        for name in ("drop_edges", "drop_features"):
            for rate in getattr(self, name):
                in_range(f"method.{name}", rate, 0, 1, "a share: 0 keeps everything, 1 drops everything")


@dataclass(frozen=True)
class EncoderConfig:
    """The network.

    Args:
        name: gcn, sage (mean of the neighbors beside the node itself), mlp (no message passing), or hops: mlp with a
            shortcut on what reaches a node in some hops, computed once before training
        layers: number of layers; all but the last are twice as wide as the embedding (sage: as wide)
        hidden: width of the embedding
        projection: width of the projector's hidden layer
        activation: after every layer; rrelu is the fixed leaky ReLU that the published settings use
        hops: hops: which, 0 for a node's own features
        rank: hops: strongest directions of the features to keep
        with_features: put what reaches a node in some hops beside its embedding
    """

    name: Literal["gcn", "sage", "mlp", "hops"] = "gcn"
    layers: int = 2
    hidden: int = 128
    projection: int = 128
    activation: Literal["relu", "prelu", "rrelu", "elu"] = "relu"
    hops: list[int] = field(default_factory=lambda: [0, 1, 2, 3])
    rank: int = 256
    with_features: bool = False

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "projection", "rank"):
            in_range(f"encoder.{name}", getattr(self, name), 1)
        if not self.hops or min(self.hops) < 0 or self.hops != sorted(set(self.hops)):
            raise InputError(f"`encoder.hops` must rise from 0 or more (got {self.hops})", 'for example "[0, 1, 2, 4]"')


@dataclass(frozen=True)
class MinerConfig:
    """The treatment of negatives; a miner takes the options it has and leaves the others.

    Args:
        name: a name that `progcl ls miners` lists, none is plain InfoNCE; or your own as package.module:Class
        start_epoch: progcl: E, the epoch at which the mixture is fitted; mochi: end of the warm-up
        estimator: progcl: of p(true | s): beta, gaussian, random, tuned, oracle (labels), or package.module:Class
        prior: w_init, initial weight of the false negatives' component
        iterations: I, steps of EM
        samples: M', similarities drawn per anchor for the fit
        variant: paper, or released to do what the authors' code does
        true_component: what marks the true negatives' component, the smaller mean or the larger weight
        hardest: progcl-mix, mochi: N', negatives to mix
        synthetic: progcl-mix, mochi: m, negatives made per anchor
        with_anchor: mochi: m', negatives mixed with the anchor itself
        class_prior: dcl, hcl: τ⁺, probability of a random node to be of the anchor's class
        concentration: hcl: β, how much more hard negatives count
        low: ring: quantile of the anchor's similarities below which negatives are left out
        high: ring: quantile above which they are left out
        anneal: ring: epochs over which the ring narrows to its width
        options: of your own miner, by name; it gets these and no others
    """

    name: str = "progcl-weight"
    start_epoch: int = 400
    estimator: str = "beta"
    prior: float = 0.05
    iterations: int = 10
    samples: int = 100
    variant: Literal["paper", "released"] = "paper"
    true_component: Literal["mean", "weight"] = "mean"
    hardest: int = 1000
    synthetic: int = 1000
    with_anchor: int = 128
    class_prior: float = 0.1
    concentration: float = 1.0
    low: float = 0.1
    high: float = 0.9
    anneal: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        in_range("miner.start_epoch", self.start_epoch, 0)
        in_range("miner.prior", self.prior, 0.001, 0.999, "the paper uses 0.01 to 0.25")
        for name in ("iterations", "samples", "hardest"):
            in_range(f"miner.{name}", getattr(self, name), 1)
        for name in ("synthetic", "with_anchor", "anneal", "concentration"):
            in_range(f"miner.{name}", getattr(self, name), 0)
        in_range("miner.class_prior", self.class_prior, 0, 0.99, "the probability of two nodes to share a class")
        for name in ("low", "high"):
            in_range(f"miner.{name}", getattr(self, name), 0, 1, "a share of the negatives, such as 0.1 and 0.9")


@dataclass(frozen=True)
class LossConfig:
    """The contrastive loss.

    Args:
        tau: temperature
        block_size: anchors per block; null chooses by the number of nodes. Changes memory, not the result
        memory: megabytes that may be spent to save time, 0 for the least; null is 1000, or a tenth of the machine's
    """

    tau: float = 0.4
    block_size: int | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        in_range("loss.tau", self.tau, 0.03, 10, "the paper uses 0.2 to 0.4")
        if self.block_size is not None:
            in_range("loss.block_size", self.block_size, 1)
        if self.memory is not None:
            in_range("loss.memory", self.memory, 0)


@dataclass(frozen=True)
class TrainConfig:
    """The training loop.

    Args:
        epochs: passes over the graph
        anchors: nodes, drawn anew in every epoch, that are contrasted with each other; null is all, as in the paper
        lr: step size of Adam
        weight_decay: of Adam
        seed: of every random draw of the run
        checkpoint_every: epochs between two checkpoints
    """

    epochs: int = 500
    anchors: int | None = None
    lr: float = 0.01
    weight_decay: float = 1e-5
    seed: int = 0
    checkpoint_every: int = 25

    def __post_init__(self) -> None:
        for name in ("epochs", "checkpoint_every"):
            in_range(f"train.{name}", getattr(self, name), 1)
        if self.anchors is not None:
            in_range("train.anchors", self.anchors, 2)
        for name in ("lr", "weight_decay", "seed"):
            in_range(f"train.{name}", getattr(self, name), 0)


@dataclass(frozen=True)
class BatchConfig:
    """Mini-batches, for graphs that are too large to be seen at once.

    Args:
        size: nodes that a step contrasts with each other; null is the whole graph in one step
        fanouts: neighbors drawn for them, and for those drawn, ...: one number for each layer of the encoder; null is
            10, 10 and 25, as many as there are layers
        replace: draw neighbors with replacement, as the paper does
        steps: batches of an epoch; null is as many as meet every node
        variant: snapshot shuffles and fits one mixture to all; paper fits one to each of the same batches (Algorithm 2)
    """

    size: int | None = None
    fanouts: list[int] | None = None
    replace: bool = True
    steps: int | None = None
    variant: Literal["snapshot", "paper"] = "snapshot"

    def __post_init__(self) -> None:
        if self.size is not None:
            in_range("batch.size", self.size, 2, hint="the paper uses 256")
        if self.steps is not None:
            in_range("batch.steps", self.steps, 1)
        for fanout in self.fanouts or ():
            in_range("batch.fanouts", fanout, 1, hint="the paper uses [10, 10, 25]")
        if self.steps is not None and self.variant == "paper":
            hint = "set --batch.steps null, or --batch.variant snapshot"
            raise InputError("with the same batches in every epoch, `batch.steps` would leave out nodes for good", hint)


@dataclass(frozen=True)
class ProbeConfig:
    """The linear evaluation.

    Args:
        protocol: clean, gca or bgrl; none trains without looking at labels at all
        splits: random splits (data with public splits uses at most those)
        seed: of the splits
        nodes: tuning is a fifth, always the same, to choose settings on; the rest is to report them on; heldout is one
            split into training, validation and test nodes: the data's own, or always the same 60, 20 and 20 %
        compare: also score features without training, the untrained encoder and the other miners
    """

    protocol: Literal["clean", "gca", "bgrl", "none"] = "clean"
    splits: int = 20
    seed: int = 0
    nodes: Literal["all", "tuning", "rest", "heldout"] = "all"
    compare: bool = False

    def options(self) -> dict[str, Any]:
        """What `probe` takes."""
        return {key: value for key, value in asdict(self).items() if key != "compare"}

    def __post_init__(self) -> None:
        in_range("probe.splits", self.splits, 1)
        in_range("probe.seed", self.seed, 0)


@dataclass(frozen=True)
class Config:
    """A whole run.

    Args:
        data: the graph
        method: the base method and its two views
        encoder: the network
        miner: the treatment of negatives
        loss: the contrastive loss
        train: the training loop
        batch: mini-batches
        probe: the linear evaluation
    """

    data: DataConfig = field(default_factory=DataConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    miner: MinerConfig = field(default_factory=MinerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    probe: ProbeConfig = field(default_factory=ProbeConfig)

    def __post_init__(self) -> None:
        if self.data.inductive and self.probe.nodes != "heldout" and self.probe.protocol != "none":
            raise InputError("inductive training is probed on held-out nodes", "set --probe.nodes heldout")
        if self.data.inductive and self.method.name == "merit":
            raise InputError("method `merit` diffuses over the whole graph", "set --data.inductive false")
        if self.encoder.name == "hops" and (self.method.name in ("gca", "merit") or any(self.method.drop_edges)):
            hint = 'set --method.name grace and --method.drop_edges "[0, 0]"'
            raise InputError("encoder `hops` follows all edges before training, once for both views", hint)
        if self.encoder.name != "hops" and self.method.walk:
            hint = "set --method.walk 0, or --encoder.name hops"
            raise InputError("only with encoder `hops` do walks choose who stands for a node in a view", hint)
        if self.batch.size is None:
            return
        if self.method.name in ("gca", "merit"):
            hint = "set --method.name grace, or --batch.size null"
            raise InputError(f"method `{self.method.name}` needs the whole graph in a step", hint)
        if self.train.anchors is not None:
            raise InputError("a batch is contrasted as a whole", "set --train.anchors null, or --batch.size null")
        if self.samples_neighbors and len(self.fanouts) != self.encoder.layers:
            numbers = f"{len(self.fanouts)} `batch.fanouts` for {self.encoder.layers} `encoder.layers`"
            raise InputError(f"{numbers}: every layer needs one", 'for example --batch.fanouts "[10, 10, 25]"')

    @property
    def samples_neighbors(self) -> bool:
        """Whether a batch needs neighbors that are not in it."""
        return self.batch.size is not None and self.encoder.name != "hops"

    @property
    def fanouts(self) -> list[int]:
        """Neighbors to draw for each layer."""
        return [10, 10, 25][: self.encoder.layers] if self.batch.fanouts is None else self.batch.fanouts
