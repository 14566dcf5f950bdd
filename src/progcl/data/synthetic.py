"""Built-in graphs: images of digits, and a contextual stochastic block model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from progcl.data.mapped import CHUNK_ROWS, write_rows
from progcl.errors import in_range
from progcl.memory import require_memory


def digits(neighbors: int = 10) -> Data:
    """Scikit-learn's 1,797 images of 8x8 pixels as a nearest-neighbor graph in pixel space."""
    in_range("data.neighbors", neighbors, 1, 1796)
    images, labels = load_digits(return_X_y=True)
    return image_graph(images, labels, neighbors)


def image_graph(images: NDArray[np.float64], labels: NDArray[np.int64], neighbors: int) -> Data:
    """Nearest-neighbor graph of images [N, pixels] with values from 0 to 16; features are scaled to [0, 1]."""
    graph = kneighbors_graph(images, neighbors).tocoo()
    edges = torch.from_numpy(np.stack([graph.row, graph.col]).astype(np.int64))
    return Data(
        x=torch.from_numpy(images / 16).float(),
        edge_index=to_undirected(edges, num_nodes=len(images)),
        y=torch.from_numpy(labels).long(),
    )


def csbm(
    nodes: int = 2000,
    classes: int = 5,
    degree: float = 10.0,
    homophily: float = 0.8,
    features: int = 32,
    signal: float = 1.0,
    mapped: str | None = None,
    seed: int = 0,
) -> Data:
    """Contextual stochastic block model: edges that prefer classes, and Gaussian features around class means.

    After Deshpande, Sen, Montanari and Mossel, "Contextual Stochastic Block Models", 2018. `degree`·nodes/2 edges are
    drawn, each inside a class with probability `homophily`, else between two classes; self-loops and repeated edges
    are dropped. Class means have norm `signal`, the noise has variance 1 in each feature.

    Args:
        nodes: N; node i has class i mod `classes`
        classes: number of classes
        degree: mean degree before duplicates are dropped
        homophily: probability that an edge stays inside a class
        features: F
        signal: norm of the class means
        mapped: .npy file to map the features from; written if it does not exist
        seed: of all random draws

    Returns:
        `Data` with `x` [N, F], `edge_index` [2, E] and `y` [N].
    """
    in_range("data.classes", classes, 2)
    in_range("data.nodes", nodes, 2 * classes, hint="at least two nodes a class")
    in_range("data.homophily", homophily, 0, 1)
    in_range("data.degree", degree, 0, nodes - 1)
    in_range("data.features", features, 1)
    in_range("data.signal", signal, 0)
    in_range("data.seed", seed, 0, 2**63 - 1)
    require_memory(nodes * (8.0 * (mapped is None) * features + 60.0 * degree + 16.0), f"`data.nodes` of {nodes:,}")
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(nodes) % classes
    edges = _block_model_edges(nodes, classes, round(degree * nodes / 2), homophily, generator)
    means = torch.nn.functional.normalize(torch.randn(classes, features, generator=generator), dim=1) * signal
    if mapped is None:
        x = torch.randn(nodes, features, generator=generator).add_(means[labels])
        return Data(x=x, edge_index=edges, y=labels)
    settings = {"nodes": nodes, "classes": classes, "degree": degree, "homophily": homophily, "features": features}
    settings |= {"signal": signal, "seed": seed}
    chunks = (
        torch.randn(len(chunk), features, generator=generator).add_(means[chunk]) for chunk in labels.split(CHUNK_ROWS)
    )
    x = write_rows(Path(mapped), (nodes, features), chunks, settings)
    return Data(x=x, edge_index=edges, y=labels, mapped=True)


def _block_model_edges(nodes: int, classes: int, edges: int, homophily: float, generator: torch.Generator) -> Tensor:
    """Undirected edges [2, E]; node i has class i mod `classes`, so that a class is an arithmetic progression."""
    source = torch.randint(0, nodes, (edges,), generator=generator)
    outside = torch.rand(edges, generator=generator) >= homophily
    step = torch.randint(1, classes, (edges,), generator=generator) * outside
    label = (source + step) % classes
    size = (nodes - label + classes - 1) // classes
    member = (torch.rand(edges, generator=generator, dtype=torch.float64) * size).long()
    pairs, _ = remove_self_loops(torch.stack([source, member * classes + label]))
    undirected: Tensor = to_undirected(pairs, num_nodes=nodes)
    return undirected
