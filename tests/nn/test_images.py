"""The residual network for images."""

import pytest
import torch
from torch.nn.functional import conv2d

from progcl.nn.images import Residual, ResNet


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("stride", "blocks", "convolutions"), [(1, 1, 9), (2, 1, 9), (2, 2, 15)])
def test_three_stages_end_in_the_embedding(stride: int, blocks: int, convolutions: int) -> None:
    network = ResNet(3, 24, blocks, stride, seeded(0))
    sizes: list[tuple[int, ...]] = []
    for layer in network.layers:
        if isinstance(layer, Residual):
            layer.register_forward_hook(lambda module, inputs, out: sizes.append(tuple(out.shape[1:])))
    assert network(torch.rand(5, 3, 32, 32, generator=seeded(1))).shape == (5, 24)
    side = 32 // stride
    assert sizes == [
        size
        for size in ((6, side, side), (12, side // 2, side // 2), (24, side // 4, side // 4))
        for _ in range(blocks)
    ]
    assert sum(isinstance(layer, torch.nn.Conv2d) for layer in network.modules()) == convolutions


def test_a_block_adds_two_convolutions_to_its_input() -> None:
    block = Residual(4, 4, 1, seeded(0)).eval()
    x = torch.randn(2, 4, 6, 6, generator=seeded(1))
    first, second = (layer.weight for layer in block.layers if isinstance(layer, torch.nn.Conv2d))
    scale = (1 + 1e-5) ** -0.5  # BatchNorm before any training
    inner = torch.relu(scale * conv2d(x, first, padding=1))
    torch.testing.assert_close(block(x), torch.relu(x + scale * conv2d(inner, second, padding=1)))


def test_initial_weights_come_from_the_generator_alone() -> None:
    first, again, other = (list(ResNet(3, 8, 1, 1, seeded(seed)).parameters()) for seed in (0, 0, 1))
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
