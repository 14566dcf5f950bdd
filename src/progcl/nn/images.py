"""A small residual network for images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STAGES = 3


class ResNet(nn.Module):
    """3 x 3 convolutions with residual connections in three stages, then the mean over all positions.

    Each stage has half the side and twice the width of the one before; the last is as wide as the embedding.

    He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition (2016); the network is much smaller than theirs.

    Args:
        channels: of the images
        hidden: width of the embedding
        blocks: residual blocks of a stage
        stride: of the first convolution
        generator: draws the initial weights
    """

    def __init__(self, channels: int, hidden: int, blocks: int, stride: int, generator: torch.Generator) -> None:
        super().__init__()
        widths = [max(1, hidden // 2 ** (STAGES - 1 - stage)) for stage in range(STAGES)]
        layers: list[nn.Module] = [*_convolution(channels, widths[0], stride, generator), nn.ReLU()]
        inputs = widths[0]
        for stage, width in enumerate(widths):
            for number in range(blocks):
                layers.append(Residual(inputs, width, 2 if stage and not number else 1, generator))
                inputs = width
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings [n, hidden] of images [n, C, H, W]."""
        out: Tensor = self.layers(images.contiguous(memory_format=torch.channels_last))
        return out.mean(dim=(2, 3))


class Residual(nn.Module):
    """relu(f(x) + x), f being two convolutions; x itself passes a 1 x 1 convolution where sizes differ."""

    def __init__(self, inputs: int, outputs: int, stride: int, generator: torch.Generator) -> None:
        super().__init__()
        first, second = _convolution(inputs, outputs, stride, generator), _convolution(outputs, outputs, 1, generator)
        self.layers = nn.Sequential(*first, nn.ReLU(), *second)
        is_same = inputs == outputs and stride == 1
        self.shortcut = nn.Sequential(*([] if is_same else _convolution(inputs, outputs, stride, generator, side=1)))

    def forward(self, x: Tensor) -> Tensor:
        """Features [n, outputs, H / stride, W / stride]."""
        return torch.relu(self.layers(x) + self.shortcut(x))


def _convolution(
    inputs: int, outputs: int, stride: int, generator: torch.Generator, side: int = 3
) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """A convolution with He's initial weights, and the normalization after it."""
    layer = nn.Conv2d(inputs, outputs, side, stride, padding=side // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu", generator=generator)
    return layer, nn.BatchNorm2d(outputs)
