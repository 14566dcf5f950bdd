"""CIFAR-10 in its published formats, written here with few images, and images of a user's own."""

import dataclasses
import hashlib
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch_geometric.data import Data

from progcl import InputError
from progcl.data import images as module
from progcl.data.datasets import PUBLISHED, Counts, load_dataset
from progcl.data.images import CIFAR_BATCHES, Cifar10, Cifar10Jpeg, read_pickled
from progcl.data.prepare import prepare
from progcl.data.splits import heldout_split
from support.images import draw_textures
from support.shared import real_file

PER_BATCH = 4
NUMBER = PER_BATCH * len(CIFAR_BATCHES)
PIXELS: NDArray[np.uint8] = np.random.default_rng(0).integers(0, 256, (NUMBER, 3072)).astype(np.uint8)
LABELS = np.arange(NUMBER) % 10


def write_binary(root: Path) -> None:
    folder = root / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    rows = np.column_stack([LABELS.astype(np.uint8), PIXELS])
    for number, name in enumerate(CIFAR_BATCHES):
        (folder / f"{name}.bin").write_bytes(rows[PER_BATCH * number :][:PER_BATCH].tobytes())


def pickle_like_python_2(labels: list[int], pixels: NDArray[np.uint8]) -> bytes:
    """A batch as Python 2 pickled it, with byte strings, which Python 3's `pickle` does not write."""

    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode()

    def numbers(values: list[int]) -> bytes:
        return b"](" + b"".join(b"K" + bytes([value]) for value in values) + b"e"

    raw = pixels.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text("b") + b"\x87R"
    dtype = (
        b"cnumpy\ndtype\n"
        + text("u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text("|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    shape = b"K" + bytes([len(pixels)]) + b"M" + struct.pack("<H", 3072) + b"\x86"
    state = b"(K\x01" + shape + dtype + b"\x89" + b"T" + struct.pack("<I", len(raw)) + raw + b"tb"
    names = b"](" + b"".join(text(f"{label}.png") for label in labels) + b"e"
    items = text("batch_label") + text("training batch 1 of 5") + text("labels") + numbers(labels)
    return b"\x80\x02}(" + items + text("data") + array + state + text("filenames") + names + b"u."


def write_pickled(root: Path) -> None:
    folder = root / "cifar10" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for number, name in enumerate(CIFAR_BATCHES):
        part = slice(PER_BATCH * number, PER_BATCH * (number + 1))
        (folder / name).write_bytes(pickle_like_python_2(LABELS[part].tolist(), PIXELS[part]))


def write_jpeg(root: Path, number: int = NUMBER, side: int = 32) -> None:
    encoded = []
    for pixels in PIXELS[:number]:
        image = Image.fromarray(pixels.reshape(3, 32, 32).transpose(1, 2, 0)).resize((side, side))
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=100, subsampling=0)
        encoded.append(buffer.getvalue())
    offsets = np.cumsum([0, *map(len, encoded)])
    arrays: dict[str, Any] = {"jpeg_bytes": np.frombuffer(b"".join(encoded), np.uint8), "labels": LABELS[:number]}
    (root / "cifar10").mkdir(parents=True)
    names = np.array(module.CIFAR_CLASSES)
    np.savez(root / "cifar10" / Cifar10Jpeg.file, offsets=offsets, class_names=names, **arrays)


@pytest.fixture
def few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many images as the files here have, and a validation share of two."""
    monkeypatch.setattr(module, "VALIDATION_IMAGES", 2)
    for name in ("cifar10", "cifar10-10k-jpeg"):
        monkeypatch.setitem(PUBLISHED, name, dataclasses.replace(PUBLISHED[name], counts=Counts(NUMBER, 0, 3072, 10)))


@pytest.mark.usefixtures("few_images")
@pytest.mark.parametrize("write", [write_binary, write_pickled])
def test_both_versions_of_cifar10_are_read(write: Any, tmp_path: Path) -> None:
    write(tmp_path)
    data = load_dataset("cifar10", tmp_path)
    assert torch.equal((255 * data.x).round().byte(), torch.from_numpy(PIXELS))  # not normalized by rows
    assert data.y.tolist() == LABELS.tolist()
    assert data.edge_index.shape == (2, 0)
    assert data.image_shape == (3, 32, 32)
    assert data.classes[3] == "cat"
    sizes = [len(nodes) for nodes in heldout_split(data)]
    assert sizes == [NUMBER - PER_BATCH - 2, 2, PER_BATCH]
    assert heldout_split(data)[2].tolist() == list(range(NUMBER - PER_BATCH, NUMBER))


def test_other_counts_are_refused(tmp_path: Path) -> None:
    write_binary(tmp_path)
    with pytest.raises(
        InputError, match="has 24 nodes, 0 edges, 3072 features, 10 classes, published are 60000"
    ) as error:
        load_dataset("cifar10", tmp_path)
    assert f"remove {tmp_path / 'cifar10'} and try again" in error.value.hint


def test_a_pickle_is_read_as_torchvision_reads_it_but_never_run(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle_like_python_2([3, 1, 9], PIXELS[:3]))
    theirs = pickle.loads(path.read_bytes(), encoding="latin1")  # torchvision's call; the file was written here
    images, labels = read_pickled(path)
    assert np.array_equal(images, theirs["data"])
    assert labels.tolist() == theirs["labels"]
    path.write_bytes(pickle.dumps({b"labels": [3, 1, 9], b"data": PIXELS[:3].tobytes()}))  # Python 3's own
    assert np.array_equal(read_pickled(path)[0], images)

    class Hostile:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "hacked"),)

    path.write_bytes(pickle.dumps({"labels": [3], "data": Hostile()}, protocol=2))
    with pytest.raises(ValueError, match="1 labels and"):
        read_pickled(path)
    assert not (tmp_path / "hacked").exists()


@pytest.mark.usefixtures("few_images")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (bytes(3072), "3,072 bytes, not 3,073 for each image"),
        (bytes([11]) + bytes(3072), "the label 11, not 0 to 9"),
    ],
)
def test_damaged_binary_files(content: bytes, message: str, tmp_path: Path) -> None:
    write_binary(tmp_path)
    (tmp_path / "cifar10" / "cifar-10-batches-bin" / "data_batch_2.bin").write_bytes(content)
    with pytest.raises(InputError, match=f"the files of `cifar10` cannot be read: data_batch_2.bin has .*{message}"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.usefixtures("few_images")
@pytest.mark.parametrize("content", [b"", b"<html>", pickle_like_python_2([1, 2], PIXELS[:2])[:4000]])
def test_damaged_pickles(content: bytes, tmp_path: Path) -> None:
    write_pickled(tmp_path)
    (tmp_path / "cifar10" / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    with pytest.raises(InputError, match="the files of `cifar10` cannot be read"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.usefixtures("few_images")
def test_the_jpeg_subset_says_what_it_is(tmp_path: Path) -> None:
    write_jpeg(tmp_path)
    data = load_dataset("cifar10-10k-jpeg", tmp_path)
    assert (data.x - torch.from_numpy(PIXELS) / 255).abs().mean() < 0.03  # the loss of JPEG
    assert data.y.tolist() == LABELS.tolist()
    assert data.remarks == ["the images are JPEG re-encodings of CIFAR-10, not its published pixels"]


def test_damaged_jpeg_files(tmp_path: Path) -> None:
    write_jpeg(tmp_path / "small", side=16)
    with pytest.raises(InputError, match="cannot be read: an image of 16 x 16 pixels, not 32 x 32"):
        load_dataset("cifar10-10k-jpeg", tmp_path / "small")
    write_jpeg(tmp_path / "cut")
    path = tmp_path / "cut" / "cifar10" / Cifar10Jpeg.file
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, "jpeg_bytes": np.zeros_like(arrays["jpeg_bytes"])})
    with pytest.raises(InputError, match="cannot be read: an image cannot be decoded"):
        load_dataset("cifar10-10k-jpeg", tmp_path / "cut")
    path.write_bytes(b"half an npz")
    with pytest.raises(InputError, match="the files of `cifar10-10k-jpeg` cannot be read"):
        load_dataset("cifar10-10k-jpeg", tmp_path / "cut")


@pytest.mark.usefixtures("few_images")
def test_the_archive_is_downloaded_if_it_is_the_published_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_binary(tmp_path)
    archive = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(tmp_path / "cifar10" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    monkeypatch.setattr(Cifar10, "url", archive.as_uri())
    with pytest.raises(InputError, match="is not the published archive"):
        load_dataset("cifar10", tmp_path / "root")
    monkeypatch.setattr(Cifar10, "md5", hashlib.md5(archive.read_bytes()).hexdigest())
    assert load_dataset("cifar10", tmp_path / "root").num_nodes == NUMBER


@pytest.mark.large(seconds=3)
def test_the_subset_has_1000_images_of_each_class() -> None:
    data = load_dataset("cifar10-10k-jpeg", real_file(f"cifar10/{Cifar10Jpeg.file}").parents[1])
    assert data.y.bincount().tolist() == [1000] * 10
    assert 0.4 < data.x.mean() < 0.55


def test_images_of_ones_own_are_validated() -> None:
    images = draw_textures(12)
    clean = prepare(images)
    assert torch.equal(clean.x, images.x)
    assert prepare(clean).image_shape == (3, 16, 16)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"image_shape": (3, 8, 8)}, r"`x` \[12, 768\] does not hold images of `image_shape` \[3, 8, 8\]"),
        ({"edge_index": torch.tensor([[0], [1]])}, "images have no edges"),
        ({"x": images.x[:1], "y": None}, "at least 2 images"),
        ({"x": images.x / 0}, "NaN or infinite"),
        ({"y": torch.zeros(5)}, "`y` has 5 values for 12 images"),
    ]
    for change, message in wrong:
        with pytest.raises(InputError, match=message):
            prepare(Data(**{**images.to_dict(), **change}))
