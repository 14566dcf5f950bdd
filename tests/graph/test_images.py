"""Random views of images, against loops over images and pixels."""

import colorsys

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from progcl.config.images import SimclrOptions
from progcl.graph.images import JITTER_STEPS, ImageSet, blend, crop_and_flip, draw_boxes, jitter_colors, shift_hue
from progcl.nn.images import ResNet
from support.devices import DEVICE, device_of, pretend_device
from support.images import draw_textures


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_images(number: int, channels: int = 3, height: int = 8, width: int = 10) -> Tensor:
    return torch.rand(number, channels, height, width, generator=seeded(0))


def test_a_crop_is_torchs_interpolation_of_a_slice() -> None:
    images = random_images(40)
    generator = seeded(1)
    boxes = draw_boxes(40, 8, 10, 0.1, generator).long().T.tolist()
    is_mirrored = (torch.rand(40, generator=generator) < 0.5).tolist()
    assert 8 < sum(is_mirrored) < 32
    expected = []
    for image, (top, left, height, width), mirrored in zip(images, boxes, is_mirrored, strict=True):
        crop = image[None, :, top : top + height, left : left + width]
        crop = interpolate(crop, size=(8, 10), mode="bilinear", align_corners=False)
        expected.append(crop.flip(3) if mirrored else crop)
    torch.testing.assert_close(crop_and_flip(images, 0.1, seeded(1)), torch.cat(expected))


def test_boxes_are_inside_the_image_with_the_shares_and_ratios_asked_for() -> None:
    top, left, height, width = draw_boxes(5000, 32, 32, 0.25, seeded(0))
    for start, side in ((top, height), (left, width)):
        assert start.min() == 0
        assert (start + side).max() == 32
        assert side.min() >= 1
    area, ratio = height * width / 32**2, width / height
    assert 0.22 < area.min() < 0.26 < 0.95 < area.max() <= 1
    assert area.mean().item() == pytest.approx(0.6, abs=0.04)  # boxes that do not fit are large
    assert 0.69 < ratio.min() < 0.78
    assert 1.28 < ratio.max() < 1.45
    assert draw_boxes(3, 4, 32, 1.0, seeded(0))[2:].tolist() == [[4.0] * 3, [32.0] * 3]  # none fits: the whole image


def test_hue_is_that_of_colorsys() -> None:
    images = random_images(3)
    images[0, :, 0] = 0.5  # gray pixels have no hue
    images[1, :, 0] = 0
    turn = torch.tensor([0.1, -0.3, 0.0]).view(3, 1, 1, 1)
    expected = torch.empty_like(images)
    for number, image in enumerate(images):
        for row in range(8):
            for column in range(10):
                hue, saturation, value = colorsys.rgb_to_hsv(*image[:, row, column].tolist())
                turned = colorsys.hsv_to_rgb((hue + turn[number].item()) % 1, saturation, value)
                expected[number, :, row, column] = torch.tensor(turned)
    torch.testing.assert_close(shift_hue(images, turn), expected, atol=1e-6, rtol=1e-5)


def naive_jitter(image: Tensor, name: str, change: float) -> Tensor:
    """One change of one image [3, H, W], straight from its definition."""
    if name == "hue":
        return shift_hue(image[None], torch.tensor(change).view(1, 1, 1, 1))[0]
    gray = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
    others = {"brightness": torch.zeros(()), "contrast": gray.sum() / gray.numel(), "saturation": gray}
    return ((1 + change) * image - change * others[name]).clamp(0, 1)


def test_jitter_is_four_changes_of_every_image() -> None:
    images, generator = random_images(6), seeded(2)
    draws = torch.rand(4, 6, generator=generator)
    order = torch.randperm(4, generator=generator).tolist()
    expected = []
    for number, image in enumerate(images):
        for step in order:
            name = list(JITTER_STEPS)[step]
            reach = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}[name]
            image = naive_jitter(image, name, reach * (2 * draws[step, number].item() - 1))
        expected.append(image)
    torch.testing.assert_close(jitter_colors(images, 0.5, seeded(2)), torch.stack(expected), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(jitter_colors(images, 0.0, seeded(2)), images, atol=1e-6, rtol=1e-5)
    assert torch.equal(blend(images, torch.zeros(()), torch.tensor(0.0)), torch.zeros_like(images))


def test_views_have_equal_bits_for_equal_seeds() -> None:
    images = ImageSet(draw_textures(60))
    (batch,) = images.batches(1)
    options = SimclrOptions()
    first, again, other = (batch.view(options, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == (60, 3, 16, 16)
    assert first.min() >= 0
    assert first.max() <= 1
    gray = (first == first[:, :1]).flatten(1).all(dim=1)
    assert 0.05 < gray.float().mean() < 0.4
    plain = SimclrOptions(min_crop=1.0, jitter=0.0, grayscale=1.0)
    assert (batch.view(plain, seeded(0)).std(dim=1) < 1e-6).all()


def test_other_numbers_of_channels_are_cropped_and_flipped_alone() -> None:
    data = draw_textures(20)
    data.x, data.image_shape = data.x.view(20, 3, -1)[:, 0], (1, 16, 16)
    (batch,) = ImageSet(data).batches(1)
    assert torch.equal(batch.view(SimclrOptions(), seeded(0)), crop_and_flip(batch.images, 0.08, seeded(0)))


def test_an_epoch_has_every_image_in_shuffled_batches() -> None:
    data = draw_textures(50)
    images = ImageSet(data, size=16, seed=3)
    batches = list(images.batches(1))
    assert [len(batch.images) for batch in batches] == [16, 16, 16, 2]
    seeds = torch.cat([batch.seeds for batch in batches if batch.seeds is not None])
    assert sorted(seeds.tolist()) == list(range(50))
    assert torch.equal(torch.cat([batch.images for batch in batches]).flatten(1), data.x[seeds])
    assert not torch.equal(next(iter(images.batches(2))).images, batches[0].images)
    (whole,) = ImageSet(data).batches(1)
    assert whole.seeds is None
    assert len(whole.images) == 50


def test_views_and_network_are_on_the_device_of_the_images() -> None:
    with pretend_device():
        data = draw_textures(20)
        data.x = data.x.to(DEVICE)
        images, network = ImageSet(data, size=8), ResNet(3, 8, 1, 2, torch.Generator().manual_seed(0)).to(DEVICE)
        seeds = torch.arange(8, device=DEVICE)
        batch = images.draw(seeds, seeds, key=0)
        out = network(batch.view(SimclrOptions(), torch.Generator().manual_seed(0)))
        out.sum().backward()
        assert device_of(batch.images) == device_of(out) == device_of(images.embed(network)) == DEVICE
