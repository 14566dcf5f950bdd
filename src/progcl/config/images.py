"""Options of methods for images."""

from __future__ import annotations

from dataclasses import dataclass

from progcl.config.abilities import MethodOptions
from progcl.errors import in_range


@dataclass(frozen=True)
class SimclrOptions(MethodOptions):
    """SimCLR; its residual network takes the place of section `encoder`, of which it reads the widths.

    Args:
        min_crop: smallest share of an image's area in a crop
        jitter: strength of random changes of brightness, contrast, saturation and hue
        grayscale: share of the images of a view that lose their colors
        blocks: residual blocks in each of three stages
        stride: of the first convolution; 2 costs a quarter of 1
        warmup: share of the run in which the step size rises from 0, before it falls by a cosine schedule
    """

    name: str = "simclr"
    min_crop: float = 0.08
    jitter: float = 0.5
    grayscale: float = 0.2
    blocks: int = 1
    stride: int = 2
    warmup: float = 0.1
    supports = frozenset({"images", "batches", "inductive", "miner"})

    def __post_init__(self) -> None:
        in_range("min_crop", self.min_crop, 0.01, 1, "a share: SimCLR uses 0.08")
        in_range("jitter", self.jitter, 0, 1, "SimCLR uses 0.5 for CIFAR-10, 1 for ImageNet")
        in_range("grayscale", self.grayscale, 0, 1, "a share: SimCLR uses 0.2")
        in_range("blocks", self.blocks, 1)
        in_range("stride", self.stride, 1, 4)
        in_range("warmup", self.warmup, 0, 1, "a share of the run, such as 0.1")
