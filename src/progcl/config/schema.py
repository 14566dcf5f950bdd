"""The sections of a run's configuration: frozen dataclasses, whose docstrings are the command line's help."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from progcl.config.methods import GraceOptions, HopViewOptions, MethodOptions
from progcl.config.miners import MinerOptions, ProGCLWeightOptions
from progcl.config.output import HopsConfig, OutputConfig, require_ascending
from progcl.errors import InputError, in_range


@dataclass(frozen=True)
class DataConfig:
    """The graph.

    Args:
        name: a name that `progcl ls data` lists
        normalize: scale each row of the features to absolute sum 1
        inductive: train on the training nodes alone; all nodes are embedded
        holdout: share of the edges kept from everything, by which the embedding is scored as a predictor of links
        graph: file: your own graph, in any format of `progcl embed`
        features_from: file: array or table with the features, if the graph's file has none
        labels_from: file: array or table with the labels
        ids_from: file: names of the nodes for arrays that have none, one a line
        source: file: column of an edge list with one end of an edge; by its name, or the first
        target: file: column with the other end
        id_column: file: column of a table that names the node
        label_column: file: column of a table that holds the class
        scale: file: scale numeric columns by median and quartiles where their scales differ; null is true
        weight: file: column, attribute or array with the weights of edges; none leaves out those that a file has
        directed: take features of several hops also along the edges and against them
        mapped: csbm: .npy file to map the features from instead of holding them in memory; written if it is not there
        neighbors: digits: nearest neighbors per image
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
    holdout: float = 0.0
    graph: str | None = None
    features_from: str | None = None
    labels_from: str | None = None
    ids_from: str | None = None
    source: str | None = None
    target: str | None = None
    id_column: str | None = None
    label_column: str | None = None
    scale: bool | None = None
    weight: str | None = None
    directed: bool = False
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
        common = {"name", "normalize", "inductive", "directed", "holdout"}
        return {key: value for key, value in asdict(self).items() if key not in common and value is not None}

    def __post_init__(self) -> None:
        in_range("holdout", self.holdout, 0, 0.9, "a share, such as 0.1")


@dataclass(frozen=True)
class EncoderConfig:
    """The network.

    Args:
        name: gcn, sage (mean of the neighbors beside the node itself), mlp (no message passing), svd (mlp on features
            reduced by an SVD), or hops (mlp with a linear skip connection on hop features, computed once before
            training)
        layers: number of layers; all but the last are twice as wide as the embedding (sage, svd: as wide)
        hidden: width of the embedding
        projection: width of the projector's hidden layer
        activation: after every layer; rrelu is the fixed leaky ReLU that the published settings use
        norm: normalization between linear map and activation
        norm_last: normalize after the activation instead
        init: initial weights of encoder and projector, Glorot's as in the paper, or torch's, which are smaller
        dropout: share of every layer's input that is dropped in training
        hops: hops, svd: powers of the normalized adjacency, 0 for a node's own features
        rank: hops, svd: singular vectors of the features to keep
    """

    name: Literal["gcn", "sage", "mlp", "svd", "hops"] = "gcn"
    layers: int = 2
    hidden: int = 128
    projection: int = 128
    activation: Literal["relu", "prelu", "rrelu", "elu"] = "relu"
    norm: Literal["none", "batch", "layer"] = "none"
    norm_last: bool = False
    init: Literal["glorot", "torch"] = "glorot"
    dropout: float = 0.0
    hops: list[int] = field(default_factory=lambda: [0, 1, 2, 3])
    rank: int = 256

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "projection", "rank"):
            in_range(name, getattr(self, name), 1)
        in_range("dropout", self.dropout, 0, 0.95, "a share, such as 0.2")
        require_ascending("hops", self.hops)


@dataclass(frozen=True)
class LossConfig:
    """The contrastive loss.

    Args:
        tau: temperature
        block_size: anchors per block; null chooses by the number of nodes. Changes memory, not the result
        memory: megabytes of buffers that save time, 0 for the least; null is 1000, or a tenth of the machine's memory
    """

    tau: float = 0.4
    block_size: int | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        in_range("tau", self.tau, 0.03, 10, "the paper uses 0.2 to 0.4")
        if self.block_size is not None:
            in_range("block_size", self.block_size, 1)
        if self.memory is not None:
            in_range("memory", self.memory, 0)


@dataclass(frozen=True)
class TrainConfig:
    """The training loop.

    Args:
        epochs: passes over the graph
        anchors: nodes that an epoch contrasts with each other, sampled anew; null is all, as in the paper
        lr: learning rate
        weight_decay: of the optimizer
        seed: of every random draw of the run
        patience: stop after so many epochs without a lower loss; null never stops early
        device: auto takes cuda, then mps, then cpu
        checkpoint_every: epochs between two checkpoints
        start_from: folder of an earlier run, whose weights training starts from, and whose embedding the new one is
            rotated onto; null starts anew
    """

    epochs: int = 500
    anchors: int | None = None
    lr: float = 0.01
    weight_decay: float = 1e-5
    seed: int = 0
    patience: int | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    checkpoint_every: int = 25
    start_from: str | None = None

    def __post_init__(self) -> None:
        lowest = {"epochs": 1, "checkpoint_every": 1, "anchors": 2, "patience": 1}
        for name, low in {**lowest, "lr": 0, "weight_decay": 0, "seed": 0}.items():
            if getattr(self, name) is not None:
                in_range(name, getattr(self, name), low)


@dataclass(frozen=True)
class BatchConfig:
    """Mini-batches, for graphs that are too large for one step.

    Args:
        size: seed nodes of a batch; null is the whole graph in one step
        fanouts: neighbors sampled per node, one number for each layer of the encoder, the seed nodes' first; null is
            10, 10 and 25, as many as there are layers
        replace: sample neighbors with replacement, as the paper does
        steps: batches of an epoch; null covers every node once
        variant: snapshot shuffles and fits one mixture to all; paper fits one to each of the same batches (Algorithm 2)
    """

    size: int | None = None
    fanouts: list[int] | None = None
    replace: bool = True
    steps: int | None = None
    variant: Literal["snapshot", "paper"] = "snapshot"

    def __post_init__(self) -> None:
        if self.size is not None:
            in_range("size", self.size, 2, hint="the paper uses 256")
        if self.steps is not None:
            in_range("steps", self.steps, 1)
        for fanout in self.fanouts or ():
            in_range("fanouts", fanout, 1, hint="the paper uses [10, 10, 25]")
        if self.steps is not None and self.variant == "paper":
            hint = "set --batch.steps null, or --batch.variant snapshot"
            raise InputError("with the same batches in every epoch, `batch.steps` would leave out nodes for good", hint)


@dataclass(frozen=True)
class ProbeConfig:
    """The linear evaluation.

    Args:
        protocol: clean, gca or bgrl; none skips the evaluation
        splits: random splits (data with public splits uses at most those); tables are of 20
        seed: of the splits
        nodes: tuning is a fixed fifth to choose settings on, rest is the other four fifths to report on; heldout is one
            split into training, validation and test nodes: the data's own, or a fixed one of 60, 20 and 20 %
        limit: time of scoring at most, in units of the time of training (at least 30 seconds); null for no limit
        compare: also score features without training, the untrained encoder and the other miners
    """

    protocol: Literal["clean", "gca", "bgrl", "none"] = "clean"
    splits: int = 5
    seed: int = 0
    nodes: Literal["all", "tuning", "rest", "heldout"] = "all"
    limit: float | None = 1.0
    compare: bool = False

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `linear_probe`."""
        return {key: value for key, value in asdict(self).items() if key not in ("limit", "compare")}

    def __post_init__(self) -> None:
        in_range("splits", self.splits, 1)
        if self.limit is not None:
            in_range("limit", self.limit, 0)
        in_range("seed", self.seed, 0)


@dataclass(frozen=True)
class Config:
    """A whole run.

    Args:
        data: the graph
        method: what is learned from what
        encoder: the network
        hops: features of several hops, which need no training
        output: what becomes of the learned vectors
        miner: the choice of negatives
        loss: the contrastive loss
        train: the training loop
        batch: mini-batches
        probe: the linear evaluation
    """

    data: DataConfig = field(default_factory=DataConfig)
    method: MethodOptions = field(default_factory=GraceOptions)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    hops: HopsConfig = field(default_factory=HopsConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    miner: MinerOptions = field(default_factory=ProGCLWeightOptions)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    probe: ProbeConfig = field(default_factory=ProbeConfig)

    def __post_init__(self) -> None:
        asked = {
            "batches": self.batch.size is not None,
            "inductive": self.data.inductive,
            "miner": self.miner.name != "none",
            "anchors": self.train.anchors is not None,
            "hop-table": self.reads_hop_table,
        }
        for ability in (name for name, needed in asked.items() if needed):
            self.method.require(ability)
        if self.data.inductive and self.probe.nodes != "heldout" and self.probe.protocol != "none":
            raise InputError("inductive training is probed on held-out nodes", "set --probe.nodes heldout")
        if self.reads_hop_table and any(getattr(self.method, "drop_edges", ())):
            hint = 'set --method.drop_edges "[0, 0]"'
            name = self.encoder.name
            raise InputError(f"encoder `{name}` propagates before training: no edges can be dropped", hint)
        if not self.reads_hop_table and self.view_walk:
            raise InputError("`method.walk` needs encoder `hops`", "set --method.walk 0, or --encoder.name hops")
        if self.samples_neighbors and self.encoder.dropout:
            hint = "set --encoder.dropout 0, or an encoder without sampled neighbors: svd, hops"
            raise InputError(f"encoder `{self.encoder.name}` has no dropout in batches", hint)
        if self.batch.variant == "paper" and self.method.name == "neighbors" and self.batch.size is not None:
            hint = "set --batch.variant snapshot"
            raise InputError("batches of `neighbors` are never the same: visited nodes are drawn anew", hint)
        if self.data.directed and not self.reads_directions:
            hint = "set --data.directed false, --output.features true, or --encoder.name hops"
            raise InputError("nothing in this run reads the direction of edges", hint)
        if self.data.inductive and self.output.structure:
            raise InputError("walk vectors of unseen nodes are not known", "set --output.structure 0")
        self._check_half_hop()
        self._check_holdout()
        if self.batch.size is not None and self.train.anchors is not None:
            raise InputError("a batch is contrasted as a whole", "set --train.anchors null, or --batch.size null")
        if self.samples_neighbors and len(self.fanouts) != self.encoder.layers:
            numbers = f"{len(self.fanouts)} `batch.fanouts` for {self.encoder.layers} `encoder.layers`"
            raise InputError(f"{numbers}: every layer needs one", 'for example --batch.fanouts "[10, 10, 25]"')

    def _check_half_hop(self) -> None:
        """Raise `InputError` where no messages are passed over slow nodes."""
        if not getattr(self.method, "half_hop", 0):
            return
        if self.encoder.name not in ("gcn", "sage"):
            hint = "set --method.half_hop 0, or --encoder.name gcn"
            raise InputError(f"encoder `{self.encoder.name}` passes no messages for slow nodes to delay", hint)
        if self.batch.size is not None:
            hint = "set --method.half_hop 0, or --batch.size null"
            raise InputError("sampled neighbors have no slow nodes: `method.half_hop` needs the whole graph", hint)

    def _check_holdout(self) -> None:
        """Raise `InputError` where held-out edges would be missing or seen."""
        holdout = getattr(self.method, "holdout", 0)
        if self.output.blocks == "auto" and not holdout:
            hint = "set --method.name neighbors --method.holdout 0.1, or --output.blocks learned"
            raise InputError("`output.blocks` auto needs edges to judge by", hint)
        encoder = self.encoder
        sees_no_edges = encoder.hops == [0] if encoder.name == "svd" else encoder.name == "mlp" and not self.batch.size
        if holdout and not sees_no_edges:
            hint = 'set --method.holdout 0, or --encoder.name svd --encoder.hops "[0]"'
            raise InputError("the encoder would see the edges that `method.holdout` keeps from training", hint)

    @property
    def view_walk(self) -> int:
        """Length of the random walks that make views of a hop table; 0 for methods without them."""
        return self.method.walk if isinstance(self.method, HopViewOptions) else 0

    @property
    def reads_hop_table(self) -> bool:
        """Whether the encoder reads features that were reduced and propagated before training."""
        return self.encoder.name in ("svd", "hops")

    @property
    def reads_directions(self) -> bool:
        """Whether there are features of several hops, which a directed graph has along its edges and against them."""
        in_table = self.reads_hop_table and self.encoder.hops != [0]
        return in_table or self.output.features or self.method.name == "hops"

    @property
    def samples_neighbors(self) -> bool:
        """Whether batches are seed nodes with sampled neighbors."""
        return self.batch.size is not None and not self.reads_hop_table and "images" not in self.method.supports

    @property
    def fanouts(self) -> list[int]:
        """Neighbors sampled for each layer."""
        return [10, 10, 25][: self.encoder.layers] if self.batch.fanouts is None else self.batch.fanouts
