"""Images in batches, and their random views: crops, flips and changes of color, each drawn for every image."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.config.images import SimclrOptions
from progcl.graph.batching import BatchLoader
from progcl.progress import bar

IMAGES_PER_CHUNK = 1000  # embedded at a time
RATIOS = (3 / 4, 4 / 3)  # narrowest and widest crop
CROP_TRIES = 10  # as in torchvision; then the whole image
FLIP_RATE = 0.5
JITTER_RATE = 0.8  # share of the images whose colors change
JITTER_STEPS = {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}  # largest changes, for strength 1
LUMA = (0.299, 0.587, 0.114)


class ImageSet(BatchLoader["ImageBatch"]):
    """Images in batches: the counterpart of `Graph` for nodes that are images.

    Args:
        data: the images, x [N, C·H·W] and `image_shape`
        size: images of a batch; None for all
        seed: of shuffling
        steps: batches of an epoch; None for a full pass
        fixed: the same batches in the same order in every epoch
        shard: (rank, world size) of this process; every process embeds whole batches
    """

    def __init__(
        self,
        data: Data,
        size: int | None = None,
        seed: int = 0,
        steps: int | None = None,
        fixed: bool = False,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self.data = data
        self.num_nodes = int(data.num_nodes)
        self.num_features = int(data.x.size(1))
        self.shape: tuple[int, int, int] = data.image_shape
        super().__init__(torch.arange(self.num_nodes, device=data.x.device), size or self.num_nodes, seed, steps, fixed)
        self.is_full_batch = size is None

    def draw(self, seeds: Tensor, local_seeds: Tensor, key: int, pairs: Tensor | None = None) -> ImageBatch:
        """The images of a batch."""
        return ImageBatch(self.data.x[seeds].view(-1, *self.shape), None if self.is_full_batch else seeds)

    @torch.no_grad()
    def embed(self, encoder: Callable[[Tensor], Tensor], progress: bool = False) -> Tensor:
        """Embeddings of all images [N, hidden], without augmentation."""
        chunks = bar(progress, iterable=self.data.x.split(IMAGES_PER_CHUNK), desc="embed", leave=False)
        return torch.cat([encoder(chunk.view(-1, *self.shape)) for chunk in chunks])


@dataclass(frozen=True)
class ImageBatch:
    """Images [n, C, H, W] of a step, and their numbers [n]; None for all images."""

    images: Tensor
    seeds: Tensor | None

    def view(self, options: SimclrOptions, generator: torch.Generator) -> Tensor:
        """A random view of every image, [n, C, H, W]: crop, flip, and for images with three channels colors.

        Draws are made on the generator's device, the CPU, and moved: the same on every device.
        """
        images = crop_and_flip(self.images, options.min_crop, generator)
        if images.size(1) != len(LUMA):
            return images
        jittered = jitter_colors(images, options.jitter, generator)
        images = _choose(jittered, images, JITTER_RATE, generator)
        return _choose(_gray(images).expand_as(images), images, options.grayscale, generator)


def crop_and_flip(images: Tensor, min_crop: float, generator: torch.Generator) -> Tensor:
    """Random crops, scaled to the size of the images by bilinear interpolation; half of them are mirrored.

    Interpolation is a product with a sparse matrix on either side: out = R · image · Cᵀ for every image and channel.
    """
    number, height, width = len(images), *images.shape[2:]
    top, left, heights, widths = draw_boxes(number, height, width, min_crop, generator)
    is_mirrored = torch.rand(number, generator=generator) < FLIP_RATE
    rows, columns = _interpolation(top, heights, height), _interpolation(left, widths, width)
    columns = torch.where(is_mirrored[:, None, None], columns.flip(1), columns)
    rows, columns = (matrix.to(images.device, images.dtype).unsqueeze(1) for matrix in (rows, columns))
    return rows @ images @ columns.mT


def draw_boxes(number: int, height: int, width: int, min_crop: float, generator: torch.Generator) -> Tensor:
    """Top, left, height and width of random boxes, [4, number].

    The share of the area is uniform, and the logarithm of the ratio of the sides; a box that does not fit is drawn
    again.
    """
    shares, ratios = torch.rand(2, number, CROP_TRIES, generator=generator)
    area = height * width * (min_crop + (1 - min_crop) * shares)
    ratio = torch.exp(math.log(RATIOS[0]) + (math.log(RATIOS[1]) - math.log(RATIOS[0])) * ratios)
    heights, widths = (area / ratio).sqrt().round().clamp_min(1), (area * ratio).sqrt().round().clamp_min(1)
    fits = (heights <= height) & (widths <= width)
    first = fits.int().argmax(dim=1, keepdim=True)
    sides = [
        torch.where(fits.any(dim=1), drawn.gather(1, first).squeeze(1), torch.tensor(float(full)))
        for drawn, full in ((heights, height), (widths, width))
    ]
    starts = [
        (torch.rand(number, generator=generator) * (full - side + 1)).floor().clamp_max(full - 1)
        for side, full in zip(sides, (height, width), strict=True)
    ]
    return torch.stack([*starts, *sides])


def jitter_colors(images: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Random brightness, contrast, saturation and hue of every image, in an order drawn for all of them."""
    draws = 2 * torch.rand(len(JITTER_STEPS), len(images), generator=generator) - 1
    names = list(JITTER_STEPS)
    for number in torch.randperm(len(names), generator=generator).tolist():
        change = (strength * JITTER_STEPS[names[number]] * draws[number]).to(images.device)[:, None, None, None]
        if names[number] == "hue":
            images = shift_hue(images, change)
            continue
        gray = _gray(images)
        others = {"brightness": torch.zeros_like(gray), "contrast": gray.mean(dim=(2, 3), keepdim=True)}
        images = blend(images, others.get(names[number], gray), 1 + change)
    return images


def blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """f·image + (1-f)·other within [0, 1]; f > 1 leads away from the other."""
    return torch.lerp(other.expand_as(images), images, factor).clamp_(0, 1)


def shift_hue(images: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue of images [n, 3, H, W] on the color wheel by a share of a full turn [n, 1, 1, 1], as HSV has it."""
    red, green, blue = images.unbind(dim=1)
    value = images.amax(dim=1)
    chroma = value - images.amin(dim=1)
    divisor = torch.where(chroma > 0, chroma, 1)
    sextant = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    offset = torch.tensor([5.0, 3.0, 1.0], device=images.device).view(1, 3, 1, 1)
    k = (offset + sextant.unsqueeze(1) + 6 * turn) % 6
    return value.unsqueeze(1) - chroma.unsqueeze(1) * torch.minimum(k, 4 - k).clamp_(0, 1)


def _interpolation(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Matrices [n, size, size] from the pixels of a side to `size` points evenly spread over a part of it."""
    points = torch.arange(size)
    position = start[:, None] + (points + 0.5) * (length / size)[:, None] - 0.5
    position = position.clamp(start[:, None], (start + length - 1)[:, None])
    return (1 - (position.unsqueeze(2) - points).abs()).clamp_min(0)


def _gray(images: Tensor) -> Tensor:
    """Brightness [n, 1, H, W]."""
    return (images * torch.tensor(LUMA, device=images.device).view(1, -1, 1, 1)).sum(dim=1, keepdim=True)


def _choose(changed: Tensor, images: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """For each image, the changed one with probability `rate`."""
    is_changed = torch.rand(len(images), generator=generator) < rate
    return torch.where(is_changed.to(images.device)[:, None, None, None], changed, images)
