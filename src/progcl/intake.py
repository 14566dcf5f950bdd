"""A user's graph made ready: edges once in both directions, features if it has none, and what is odd about it said."""

from __future__ import annotations

import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from progcl.errors import InputError
from progcl.files import read_graph
from progcl.graph import Graph, View

WALK, WIDTH = 10, 128  # steps of a random walk, and numbers that say where it ends: DeepWalk's usual ones
ROUNDS, SPARE = 3, 16  # of the search for these numbers, and how many more are looked for
CHUNK = 2**14  # rows of features that are looked at together
SCALES = 1000  # how much larger one column may be than another before somebody should know


def own_graph(graph: str, features_from: str | None = None, labels_from: str | None = None) -> Data:
    """A graph of your own from a file; `progcl embed --help` lists the formats."""
    return taken_in(read_graph(graph, features_from, labels_from))


def taken_in(data: Data) -> Data:
    """A graph in the form that training expects, with `remarks`: what a user may not expect, a sentence each.

    `made` says whether its features are made of its edges.
    """
    nodes = int(data.num_nodes)
    if nodes < 2:
        raise InputError(f"a graph needs at least 2 nodes (got {nodes})", "is there more than a head in the file?")
    edges, odd = _both_ways(data.edge_index, nodes)
    remarks = [*data.get("remarks", []), *odd]
    made = Data(edge_index=edges, num_nodes=nodes)
    for name in ("y", "ids", "classes"):
        if data.get(name) is not None:
            made[name] = data[name]
    made.made = data.get("x") is None
    if made.made:
        made.x = structure(edges, nodes)
        said = "the degree, and where random walks end"
        remarks.append(f"no features given: {made.x.size(1)} made of the edges, {said}")
    else:
        made.x = data.x.float()
        require_finite(made.x)
        remarks += _about_features(made.x)
    made.remarks = [*remarks, *_about_shape(edges, nodes)]
    return made


def structure(edges: Tensor, nodes: int, seed: int = 0) -> Tensor:
    """Features of nodes that have none: the logarithm of the degree, and where random walks of 1 to 10 steps end.

    The latter are the strongest directions of the mean of Â, Â², ..., Â¹⁰, as many as DeepWalk usually learns, found by
    subspace iteration from a random start; rows have length 1, so nodes are alike whose walks end at the same places.
    """
    graph = Data(x=torch.zeros(nodes, 0), edge_index=edges, num_nodes=nodes)
    adjacency = View(Graph(graph)).symmetric.matrix

    def walked(x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for _ in range(WALK):
            x = adjacency @ x
            total += x
        return total / WALK

    found = torch.randn(nodes, min(WIDTH + SPARE, nodes), generator=torch.Generator().manual_seed(seed))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same numbers however many threads there are: a resumed run needs them
    try:
        for _ in range(ROUNDS):
            found = torch.linalg.qr(walked(found)).Q
        strength, turned = torch.linalg.eigh(found.T @ walked(found))
        ends = normalize((found @ turned * strength)[:, -WIDTH:], dim=1)
    finally:
        torch.set_num_threads(threads)
    height = torch.bincount(edges[1], minlength=nodes).float().log1p().unsqueeze(1)
    return torch.cat([height / height.max(), ends], dim=1)


def _both_ways(edge_index: Tensor, nodes: int) -> tuple[Tensor, list[str]]:
    """Every edge once in both directions, without loops."""
    proper = edge_index[:, edge_index[0] != edge_index[1]]
    if not proper.size(1):
        raise InputError("the graph has no edges", "without any, the features are all there is to embed")
    loops, once = edge_index.size(1) - proper.size(1), coalesce(proper, num_nodes=nodes)
    edges: Tensor = to_undirected(once, num_nodes=nodes)
    remarks = []
    if loops:
        remarks.append(f"{counted(loops, 'self-loop')} left out: every node sees itself anyway")
    if repeated := proper.size(1) - once.size(1):
        remarks.append(f"{counted(repeated, 'duplicate edge')} left out")
    if once.size(1) < edges.size(1):
        remarks.append("every edge is used in both directions")
    return edges, remarks


def _about_shape(edges: Tensor, nodes: int) -> list[str]:
    degree = torch.bincount(edges[0], minlength=nodes)
    remarks = []
    if isolated := int((degree == 0).sum()):
        remarks.append(f"{counted(isolated, 'isolated node')}: embedded by the features alone")
    links = coo_matrix((torch.ones(edges.size(1)).numpy(), edges.numpy()), (nodes, nodes))
    parts = connected_components(links, directed=False)[0] - isolated
    if parts > 1:
        remarks.append(f"{parts:,} parts without edges between them: their nodes are compared by features alone")
    return remarks


def _about_features(x: Tensor) -> list[str]:
    remarks = []
    low, high = x.amin(dim=0), x.amax(dim=0)
    if constant := int((low == high).sum()):
        remarks.append(f"{counted(constant, 'feature')} of {x.size(1):,} the same for all nodes")
    sizes = torch.maximum(low.abs(), high.abs())
    sizes = sizes[sizes > 0]
    if len(sizes) and sizes.max() > SCALES * sizes.median():
        ratio = float(sizes.max() / sizes.median())
        remarks.append(
            f"the largest feature is {ratio:,.0f} times a usual one and will hide others: rescale the columns"
        )
    if repeated := len(x) - len({hash(row.tobytes()) for row in x.numpy()}):
        remarks.append(f"{counted(repeated, 'node')} with features that another node has, too")
    return remarks


def require_finite(x: Tensor) -> None:
    """Raise `InputError` where features are missing; rows are looked at in parts, for they may lie in a mapped file."""
    if not all(part.isfinite().all() for part in x.split(CHUNK)):
        raise InputError("the features hold NaN or infinite values", "fill them in, or leave the columns out")


def counted(number: int, name: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {name}{'s' if number != 1 else ''}"
