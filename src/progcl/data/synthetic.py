"""Graphs that come with the package: images of digits, and a contextual stochastic block model."""

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

from progcl.data.mapped import write_rows
from progcl.data.prepare import CHUNK
from progcl.errors import in_range


def digits(neighbors: int = 10) -> Data:
    """Scikit-learn's 1,797 images of 8x8 pixels, each tied to its nearest neighbours in pixel space."""
    in_range("data.neighbors", neighbors, 1, 1796)
    images, labels = load_digits(return_X_y=True)
    return image_graph(images, labels, neighbors)


def image_graph(images: NDArray[np.float64], labels: NDArray[np.int64], neighbors: int) -> Data:
    """Images with pixels from 0 to 16 as the rows of a graph, each tied to its nearest ones."""
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
    """Contextual stochastic block model: classes, edges that prefer them, and noisy features around class means.

    `degree`·nodes/2 edges are drawn, each with probability `homophily` inside a class and else between two; loops
    and repeated edges are dropped. Class means have length `signal`, the noise has variance 1 in each feature. With
    `mapped`, the features are in that file, and written to it if it is not there.
    """
    in_range("data.classes", classes, 2)
    in_range("data.nodes", nodes, 2 * classes, hint="at least two nodes a class")
    in_range("data.homophily", homophily, 0, 1)
    in_range("data.degree", degree, 0, nodes - 1)
    in_range("data.features", features, 1)
    in_range("data.signal", signal, 0)
    in_range("data.seed", seed, 0, 2**63 - 1)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(nodes) % classes
    edges = _block_model_edges(nodes, classes, round(degree * nodes / 2), homophily, generator)
    means = torch.nn.functional.normalize(torch.randn(classes, features, generator=generator), dim=1) * signal
    if mapped is None:
        x = torch.randn(nodes, features, generator=generator).add_(means[labels])
        return Data(x=x, edge_index=edges, y=labels)
    settings = {"nodes": nodes, "classes": classes, "degree": degree, "homophily": homophily, "features": features}
    settings |= {"signal": signal, "seed": seed}
    rows = (torch.randn(len(part), features, generator=generator).add_(means[part]) for part in labels.split(CHUNK))
    x = write_rows(Path(mapped), (nodes, features), rows, settings)
    return Data(x=x, edge_index=edges, y=labels, mapped=True)


def _block_model_edges(nodes: int, classes: int, edges: int, homophily: float, generator: torch.Generator) -> Tensor:
    """Node i has class i mod classes, so a class's members are an arithmetic progression."""
    source = torch.randint(0, nodes, (edges,), generator=generator)
    outside = torch.rand(edges, generator=generator) >= homophily
    step = torch.randint(1, classes, (edges,), generator=generator) * outside
    label = (source + step) % classes
    size = (nodes - label + classes - 1) // classes
    member = (torch.rand(edges, generator=generator, dtype=torch.float64) * size).long()
    pairs, _ = remove_self_loops(torch.stack([source, member * classes + label]))
    both: Tensor = to_undirected(pairs, num_nodes=nodes)
    return both
