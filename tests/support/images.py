"""Small images of colored textures, or in two groups; and the data of a method: images where it reads these alone."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.config.methods import METHODS

SIDE = 16
CLASSES = 4  # horizontal, vertical and diagonal stripes, checkerboard


def draw_textures(number: int, seed: int = 0, noise: float = 0.1) -> Data:
    """Textures of two random colors and a random phase; the class is the texture alone."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(number) % CLASSES
    phase = 4 * torch.rand(2, number, 1, 1, generator=generator)
    y, x = torch.arange(SIDE).view(1, -1, 1) + phase[0], torch.arange(SIDE).view(1, 1, -1) + phase[1]
    rows, columns = (torch.sin(torch.pi / 2 * each).expand(-1, SIDE, SIDE) for each in (y, x))
    diagonal = torch.sin(torch.pi / 2 * (x + y))
    waves = torch.stack([rows, columns, diagonal, rows * columns])[label, torch.arange(number)]
    first, second = torch.rand(2, number, 3, 1, 1, generator=generator)
    images = torch.where((waves > 0).unsqueeze(1), first, second)
    return _to_data(images + noise * torch.randn(images.shape, generator=generator), label)


def draw_two_groups(number: int) -> Data:
    """Bright and dark images: similarities have two modes before any training."""
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(number) % 2
    noise = torch.randn(number, 3, SIDE, SIDE, generator=generator)
    return _to_data(0.1 + 0.75 * label.view(-1, 1, 1, 1) + 0.05 * noise, label)


def data_for(method: str, graph: Data) -> Data:
    """The graph, or as many images for a method that reads nothing else."""
    return draw_two_groups(int(graph.num_nodes)) if METHODS[method].target.endswith("simclr:Simclr") else graph


def _to_data(images: Tensor, label: Tensor) -> Data:
    empty = torch.empty(2, 0, dtype=torch.long)
    return Data(x=images.clamp(0, 1).flatten(1), edge_index=empty, y=label, image_shape=(3, SIDE, SIDE))
