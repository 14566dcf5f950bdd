"""How much memory a run needs, phase by phase, before it starts; and buffers that make it fit a limit.

Constants are measured by benchmarks/memory.py, on Linux with torch for CPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch_geometric.data import Data

from progcl.config.schema import Config
from progcl.data.datasets import FILE
from progcl.data.rows import is_sparse, values_of
from progcl.data.structure import ROWS_PER_PART, WalkPlan, count_distinct_pairs
from progcl.errors import InputError
from progcl.graph.hop_features import choose_rank
from progcl.losses.infonce import default_memory
from progcl.losses.tiles import TILE_SIDE
from progcl.memory import format_size, memory_limit, resident

BASE_BYTES = 5.0e8  # of a process that has imported torch, PyG and this package
PROBE_IMPORTS, REPORT_IMPORTS = 2.0e8, 2.0e8  # of what is imported later: scikit-learn; pyarrow, openTSNE
ACTIVATION_COPIES = 3  # values, gradients, and one of them at work
SCRATCH_TILES = 10  # beside the buffers
BYTES_PER_PAIR = 20  # of nodes, for similarities and frozen weights, if buffers may hold all
BLOCK_BYTES = 5.0e8  # of a block of rows at work, for miners without a closed form
SPARSE_ENTRY_BYTES = 40.0  # of sparse features, with copies whose rows have length 1
EDGE_BYTES = 32.0  # of edges that are copied to be sorted or hashed
WALK_ENTRY_BYTES = 8  # of a pair of nodes on walks: its number and place
PROBE_COPIES, REPORT_COPIES, MAP_COPIES = 2, 1, 2  # of the embedding; of the rows on the map, in float64
MAP_NODES = 20_000  # that a map shows at most
SLACK = 0.03  # of a limit that is left free, for what an estimate misses


@dataclass(frozen=True)
class GraphSize:
    """What memory depends on; edges are counted in both directions."""

    nodes: int
    edges: int
    features: int
    mapped: bool = False
    nonzero: int | None = None  # entries of sparse features
    pairs: float | None = None  # of nodes that are near each other on walks; None if it is not known

    @classmethod
    def of(cls, data: Data) -> GraphSize:
        """The size of a prepared graph."""
        nonzero = values_of(data.x).numel() if is_sparse(data.x) else None
        nodes, edges = int(data.num_nodes), data.edge_index.cpu()
        pairs = count_distinct_pairs(edges, nodes, WalkPlan.for_size(nodes)) if edges.numel() else 0.0
        return cls(nodes, edges.size(1), data.x.size(1), bool(data.get("mapped")), nonzero, pairs)


def estimate_memory(config: Config, size: GraphSize, held: float | None = None) -> dict[str, float]:
    """Bytes at the peak of every phase, what the process holds anyway included.

    Args:
        config: of the run
        size: of the graph
        held: bytes that are taken before training starts; None for a new process with the graph in it
    """
    held = BASE_BYTES + _graph_bytes(size) if held is None else held
    if size.nonzero is not None and not config.reads_hop_table:
        held += 4.0 * size.nodes * size.features  # training needs them dense
    vectors, shown = 4.0 * size.nodes * embedding_width(config, size), min(size.nodes, MAP_NODES)
    training = _training_bytes(config, size)
    training["buffers"] = min(_buffer_limit(config), BYTES_PER_PAIR * _contrasted(config, size) ** 2)
    is_file = config.data.name == FILE
    beside = vectors + _hop_bytes(size, len(config.hops.powers), config.hops.rank) if is_file else 0.0
    map_bytes = 8.0 * MAP_COPIES * shown * embedding_width(config, size)
    phases = {
        "training": held + sum(training.values()),
        "output": held + max(_output_bytes(config, size), _walk_bytes(config, size)),
        "scoring": held + PROBE_IMPORTS + max(PROBE_COPIES * vectors, beside),
        "the report": held + REPORT_IMPORTS + REPORT_COPIES * vectors + map_bytes,
    }
    left_out = {"scoring"} if config.probe.protocol == "none" else set()
    left_out |= set() if is_file else {"the report"}
    return {name: needed for name, needed in phases.items() if name not in left_out}


def fit_to_memory(config: Config, size: GraphSize, limit: float, held: float | None = None) -> Config:
    """The configuration with buffers of the loss that keep the run within a limit.

    Raises:
        InputError: no size of the buffers does; it names the phase that needs most, and what would help
    """
    most = (1 - SLACK) * limit
    least = replace(config, loss=replace(config.loss, memory=0.0))
    phases = estimate_memory(least, size, held)
    worst = max(phases, key=lambda name: phases[name])
    if phases[worst] > most:
        needed, allowed = format_size(phases[worst]), format_size(limit)
        message = f"about {needed} of memory are needed for {worst}, {allowed} are allowed"
        raise InputError(message, _suggest_less(worst, config, size))
    buffers = min(_buffer_limit(config), most - phases["training"])
    return replace(config, loss=replace(config.loss, memory=round(buffers / 1e6, 1)))


def apply_memory_limit(config: Config, data: Data) -> Config:
    """The configuration within the limit of the process, if there is one; its memory now is counted as it is."""
    limit = memory_limit()
    return config if math.isinf(limit) else fit_to_memory(config, GraphSize.of(data), limit, resident())


def embedding_width(config: Config, size: GraphSize) -> int:
    """Numbers per node of the embedding, at most."""
    output = config.output
    if output.dim is not None:
        return output.dim
    learned = config.encoder.hidden * max(1, len(output.smooth))
    return learned + (_hop_width(config, size) if output.features else 0) + output.structure


def _graph_bytes(size: GraphSize) -> float:
    """Features with a copy at work, edges, and what is kept of names and labels."""
    dense = 0 if size.mapped else 8.0 * size.nodes * size.features
    features = dense if size.nonzero is None else SPARSE_ENTRY_BYTES * size.nonzero
    return features + 20.0 * size.edges + 200.0 * size.nodes


def _hop_width(config: Config, size: GraphSize) -> int:
    """Columns of the features of several hops, reduced."""
    hops = config.hops
    stacked = len(hops.powers) * min(size.features, hops.rank or choose_rank(size.nodes, len(hops.powers)))
    return stacked if hops.dim is None else min(stacked, hops.dim)


def _contrasted(config: Config, size: GraphSize) -> int:
    """Nodes that a step contrasts with each other."""
    asked = config.batch.size or config.train.anchors or size.nodes
    return min(size.nodes, 2 * asked if config.method.name == "neighbors" else asked)


def _embedded(config: Config, size: GraphSize) -> int:
    """Nodes that pass through the encoder in a step."""
    if not config.samples_neighbors:
        return _contrasted(config, size) if config.batch.size or config.reads_hop_table else size.nodes
    grown = (config.batch.size or 0) * math.prod(fanout + 1 for fanout in config.fanouts)
    return min(size.nodes, grown)


def _training_bytes(config: Config, size: GraphSize) -> dict[str, float]:
    """Of a step, without the buffers of the loss."""
    encoder, contrasted = config.encoder, _contrasted(config, size)
    inputs = size.features
    table = 0.0
    if config.reads_hop_table:
        inputs = min(encoder.rank, size.features) * len(encoder.hops)
        table = 8.0 * size.nodes * inputs
    width = inputs + 2 * encoder.layers * encoder.hidden + 2 * (encoder.hidden + encoder.projection)
    weights = encoder.hidden * (inputs + 2 * encoder.layers * encoder.hidden + 2 * encoder.projection)
    tile = min(contrasted, config.loss.block_size or TILE_SIDE)
    has_closed_form = config.miner.name in CLOSED_FORM
    return {
        "hop table": table,
        "edges": EDGE_BYTES * size.edges,
        "activations": 2 * ACTIVATION_COPIES * 4.0 * _embedded(config, size) * width,
        "weights": 16.0 * weights,
        "tiles": SCRATCH_TILES * 4.0 * tile**2 if has_closed_form else min(BLOCK_BYTES, 48.0 * contrasted**2),
    }


def _buffer_limit(config: Config) -> float:
    return float(default_memory(config.loss.memory))


def _output_bytes(config: Config, size: GraphSize) -> float:
    """Learned vectors and those of walks, beside the embedding with its blocks or features of hops, what is larger."""
    hops = _hop_bytes(size, len(config.hops.powers), config.hops.rank) if config.output.features else 0.0
    blocks = 4.0 * size.nodes * 2 * embedding_width(config, size)
    return max(blocks, hops) + 4.0 * size.nodes * (2 * config.encoder.hidden + config.output.structure)


def _hop_bytes(size: GraphSize, powers: int, rank: int | None) -> float:
    """Features of so many hops side by side before they are reduced, with three more blocks at work, and Â."""
    rank = min(size.features, rank or choose_rank(size.nodes, powers))
    return 4.0 * size.nodes * rank * (powers + 3) + EDGE_BYTES * size.edges


def _walk_bytes(config: Config, size: GraphSize) -> float:
    """Learned vectors, and half the matrix of pairs of nodes on walks: with a part twice, or with rows of its factors.

    If it is not known how many pairs there are, all are equally likely, which is most often too many.
    """
    if not config.output.structure:
        return 0.0
    plan, possible = WalkPlan.for_size(size.nodes), float(size.nodes) ** 2
    drawn = 2.0 * plan.walks * plan.length * plan.window * size.nodes
    matrix = WALK_ENTRY_BYTES * (-math.expm1(-drawn / possible) * possible if size.pairs is None else size.pairs)
    factors = 4.0 * size.nodes * (3 * config.output.structure + 2 * config.encoder.hidden)
    parts = math.ceil(size.nodes / ROWS_PER_PART)
    largest = (2 * parts - 1) / parts**2  # of its parts, the first rows above the diagonal
    return matrix / 2 + max(largest * matrix / 2, factors) + EDGE_BYTES * size.edges


def _suggest_less(phase: str, config: Config, size: GraphSize) -> str:
    walks = _walk_bytes(config, size)
    if phase == "output" and walks:
        return f"--output.structure 0 leaves out the walk vectors, which need {format_size(walks)}"
    if phase == "training" and "batches" in config.method.supports and config.batch.size is None:
        return "--batch.size 512 trains on batches"
    return "a smaller --encoder.hidden, or --dim for `embed`; or a larger --memory"


CLOSED_FORM = {"none", "progcl-weight", "progcl-mix", "ring"}  # miners whose weights carry no gradient
