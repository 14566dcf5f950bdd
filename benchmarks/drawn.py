"""Graphs like `digits`, as many as wanted: figures drawn in matplotlib's fonts, bent, and made 8x8 pixels small.

Settings can be chosen on them with all their labels, since no table is made of them.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter, map_coordinates
from torch_geometric.data import Data

from progcl.data.synthetic import image_graph

Pixels = NDArray[np.float64]
FONTS = sorted(
    path
    for family in ("DejaVuS*", "STIXGeneral*", "cmr10*", "cmtt10*", "cmss10*")
    for path in (Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob(f"{family}.ttf")
    if "Display" not in path.name
)
NODES, NEIGHBORS = 1797, 10  # as digits have
SIDE, SMALL, LEVELS = 64, 8, 16  # pixels before and after, and shades of grey
BENT = 0.5  # how much: with this much, the untrained encoder is about as good as on digits


def drawn_digits(seed: int) -> Data:
    """Images of 0 to 9, each tied to its nearest ones."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, 10, NODES)
    images = np.stack([_image(str(label), chance).ravel() for label in labels])
    return image_graph(images, labels, NEIGHBORS)


def _image(text: str, chance: np.random.Generator) -> Pixels:
    font = ImageFont.truetype(str(chance.choice(np.array(FONTS, dtype=str))), 44)
    canvas = Image.new("L", (SIDE, SIDE))
    place = (SIDE / 2, SIDE / 2)
    ImageDraw.Draw(canvas).text(place, text, 255, font, anchor="mm", stroke_width=int(chance.integers(0, 3)))
    bent = map_coordinates(np.asarray(canvas, float) / 255, _places(chance), order=1)
    rows, columns = (bent > 0.3).nonzero()
    inked = bent[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    upright = Image.fromarray((255 * inked).astype(np.uint8)).resize((3 * SIDE // 4, SIDE))
    filled = np.pad(np.asarray(upright, float) / 255, ((0, 0), (SIDE // 8, SIDE // 8)))
    cells = filled.reshape(SMALL, SIDE // SMALL, SMALL, SIDE // SMALL).mean(axis=(1, 3))
    noisy = cells + chance.normal(0, 0.04 * BENT, cells.shape)
    return np.clip(np.round(LEVELS * noisy), 0, LEVELS)


def _places(chance: np.random.Generator) -> Pixels:
    """Where each pixel of a bent image comes from: turned, sheared, stretched and rippled, [2, SIDE, SIDE]."""
    angle, shear = chance.normal(0, (0.18 * BENT, 0.22 * BENT))
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    linear = turned @ np.array([[1, 0], [shear, 1]]) @ np.diag(np.exp(chance.normal(0, 0.15 * BENT, 2)))
    ripples = np.stack([gaussian_filter(chance.normal(size=(SIDE, SIDE)), 7) for _ in range(2)])
    middle = (SIDE - 1) / 2
    grid = np.indices((SIDE, SIDE)) - middle
    moved: Pixels = np.einsum("ij,jkl->ikl", linear, grid) + middle + 3 * BENT * ripples / ripples.std()
    return moved
