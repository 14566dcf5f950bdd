"""Synthetic graphs like `digits`: digits rendered in matplotlib's fonts, distorted, and downsampled to 8x8 pixels.

Settings may be chosen on them with all their labels, since no table reports them.
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
NODES, NEIGHBORS = 1797, 10  # as in digits
CANVAS, SIZE, GRAY_LEVELS = 64, 8, 16  # pixels per side before and after downsampling
DISTORTION = 0.5  # at this strength, the untrained encoder is about as good as on digits


def render_digits(seed: int) -> Data:
    """Images of the digits 0 to 9, each linked to its nearest ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, NODES)
    images = np.stack([_render(str(label), rng).ravel() for label in labels])
    return image_graph(images, labels, NEIGHBORS)


def _render(text: str, rng: np.random.Generator) -> Pixels:
    """A distorted image of a digit, scaled to fill the height, [SIZE, SIZE]."""
    font = ImageFont.truetype(str(rng.choice(np.array(FONTS, dtype=str))), 44)
    canvas = Image.new("L", (CANVAS, CANVAS))
    center = (CANVAS / 2, CANVAS / 2)
    ImageDraw.Draw(canvas).text(center, text, 255, font, anchor="mm", stroke_width=int(rng.integers(0, 3)))
    distorted = map_coordinates(np.asarray(canvas, float) / 255, _sample_distortion(rng), order=1)
    rows, columns = (distorted > 0.3).nonzero()
    cropped = distorted[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    resized = Image.fromarray((255 * cropped).astype(np.uint8)).resize((3 * CANVAS // 4, CANVAS))
    padded = np.pad(np.asarray(resized, float) / 255, ((0, 0), (CANVAS // 8, CANVAS // 8)))
    cells = padded.reshape(SIZE, CANVAS // SIZE, SIZE, CANVAS // SIZE).mean(axis=(1, 3))
    noisy = cells + rng.normal(0, 0.04 * DISTORTION, cells.shape)
    return np.clip(np.round(GRAY_LEVELS * noisy), 0, GRAY_LEVELS)


def _sample_distortion(rng: np.random.Generator) -> Pixels:
    """Source coordinates of each pixel after random rotation, shear, scaling and ripples, [2, CANVAS, CANVAS]."""
    angle, shear = rng.normal(0, (0.18 * DISTORTION, 0.22 * DISTORTION))
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    linear = rotation @ np.array([[1, 0], [shear, 1]]) @ np.diag(np.exp(rng.normal(0, 0.15 * DISTORTION, 2)))
    ripples = np.stack([gaussian_filter(rng.normal(size=(CANVAS, CANVAS)), 7) for _ in range(2)])
    center = (CANVAS - 1) / 2
    grid = np.indices((CANVAS, CANVAS)) - center
    coordinates: Pixels = np.einsum("ij,jkl->ikl", linear, grid) + center + 3 * DISTORTION * ripples / ripples.std()
    return coordinates
