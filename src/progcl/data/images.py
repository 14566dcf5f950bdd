"""Images as nodes without edges: CIFAR-10 from its published files, and a subset of it."""

from __future__ import annotations

import hashlib
import math
import pickletools
import tarfile
import urllib.request
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from progcl.errors import InputError

Bytes: TypeAlias = NDArray[np.uint8]
Labeled: TypeAlias = tuple[Bytes, NDArray[np.int64]]  # images [n, C·H·W], labels [n]

CIFAR_SHAPE = (3, 32, 32)
CIFAR_PIXELS = math.prod(CIFAR_SHAPE)
CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
BINARY, PICKLED = "cifar-10-batches-bin", "cifar-10-batches-py"
VALIDATION_IMAGES = 5000  # of the training images, the last
IMAGES_HINT = "Data(x=[N, C·H·W] pixels, edge_index=torch.empty(2, 0, dtype=torch.long), image_shape=(C, H, W))"


class Cifar10:
    """CIFAR-10's 60,000 images, the 50,000 for training first; the last 5,000 of those are for validation.

    `root` has cifar-10-batches-bin, the binary version, or cifar-10-batches-py, the one that torchvision downloads.
    Without either, the binary version is downloaded.

    Krizhevsky: Learning Multiple Layers of Features from Tiny Images (2009).
    """

    url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    md5 = "c32a1d4ab5d03f1284b67883e8d87530"
    files = tuple(f"{BINARY}/{name}.bin" for name in CIFAR_BATCHES)
    pickled_files = tuple(f"{PICKLED}/{name}" for name in CIFAR_BATCHES)

    def __init__(self, root: str) -> None:
        binary, pickled = Path(root, BINARY), Path(root, PICKLED)
        if binary.exists() or not pickled.exists():
            if not binary.exists():
                self._download(Path(root))
            batches = [read_binary(binary / f"{name}.bin") for name in CIFAR_BATCHES]
        else:
            batches = [read_pickled(pickled / name) for name in CIFAR_BATCHES]
        images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        self.data = to_data(images, labels, CIFAR_SHAPE, CIFAR_CLASSES)
        number, test = len(images), len(batches[-1][0])
        shares = torch.arange(number).tensor_split((number - test - VALIDATION_IMAGES, number - test))
        for name, share in zip(("train", "val", "test"), shares, strict=True):
            self.data[f"{name}_mask"] = index_to_mask(share, number)

    def __getitem__(self, index: int) -> Data:
        return [self.data][index]

    def _download(self, root: Path) -> None:
        with urllib.request.urlopen(self.url) as answer:
            archive = answer.read()
        if hashlib.md5(archive, usedforsecurity=False).hexdigest() != self.md5:
            raise ValueError(f"{self.url} is not the published archive")
        root.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(root, filter="data")


class Cifar10Jpeg:
    """10,000 images of CIFAR-10, 1,000 of each class, re-encoded as JPEG: not the published pixels."""

    file = "cifar10_10k_jpeg.npz"

    def __init__(self, root: str) -> None:
        path = Path(root, self.file)
        if not path.exists():
            raise FileNotFoundError(f"there is no download of {self.file}")
        with np.load(path, allow_pickle=False) as file:
            encoded, offsets, labels = file["jpeg_bytes"], file["offsets"], file["labels"]
            classes = tuple(file["class_names"].tolist())
        images = [decode_jpeg(encoded[start:end].tobytes()) for start, end in pairwise(offsets)]
        self.data = to_data(np.stack(images), labels.astype(np.int64), CIFAR_SHAPE, classes)
        self.data.remarks = ["the images are JPEG re-encodings of CIFAR-10, not its published pixels"]

    def __getitem__(self, index: int) -> Data:
        return [self.data][index]


def to_data(images: Bytes, labels: NDArray[np.int64], shape: tuple[int, int, int], classes: tuple[str, ...]) -> Data:
    """Images [N, C·H·W] of bytes as a graph without edges, features in [0, 1]."""
    return Data(
        x=torch.from_numpy(images).float().div_(255),
        edge_index=torch.empty(2, 0, dtype=torch.long),
        y=torch.from_numpy(labels),
        classes=list(classes),
        image_shape=shape,
    )


def is_images(data: Data) -> bool:
    """Whether the nodes are images: `image_shape` says how their features are arranged."""
    return data.get("image_shape") is not None


def prepare_images(data: Data) -> Data:
    """Validate images, and bring them into the form that training expects (see `prepare`).

    Raises:
        InputError: if shapes do not fit, pixels are not finite, or there are edges
    """
    shape = tuple(int(size) for size in data.image_shape)
    x = torch.as_tensor(data.x).detach().cpu().float()
    if len(shape) != 3 or x.dim() != 2 or x.size(1) != math.prod(shape):
        raise InputError(f"`x` {list(x.shape)} does not hold images of `image_shape` {list(shape)}", IMAGES_HINT)
    if data.get("edge_index") is not None and data.edge_index.numel():
        raise InputError("images have no edges", IMAGES_HINT)
    if len(x) < 2:
        raise InputError(f"a contrast needs at least 2 images (got {len(x)})", IMAGES_HINT)
    if not x.isfinite().all():
        raise InputError("the images hold NaN or infinite values")
    clean = Data(**data.to_dict())
    clean.x, clean.image_shape, clean.edge_index = x, shape, torch.empty(2, 0, dtype=torch.long)
    clean.num_nodes, clean.mapped, clean.structural = len(x), False, False
    clean.remarks = list(data.get("remarks", []))
    if data.get("y") is not None:
        clean.y = torch.as_tensor(data.y).flatten().long().cpu()
        if len(clean.y) != len(x):
            raise InputError(f"`y` has {len(clean.y)} values for {len(x)} images", "every image needs one")
    return clean


def read_binary(path: Path) -> Labeled:
    """A batch of the binary version: for each image a byte with its label, then red, green and blue rows.

    Raises:
        ValueError: if the size or a label does not fit
    """
    content = np.fromfile(path, np.uint8)
    if not len(content) or len(content) % (CIFAR_PIXELS + 1):
        raise ValueError(f"{path.name} has {len(content):,} bytes, not {CIFAR_PIXELS + 1:,} for each image")
    rows = content.reshape(-1, CIFAR_PIXELS + 1)
    return rows[:, 1:].copy(), _validate_labels(rows[:, 0].astype(np.int64), path)


def read_pickled(path: Path) -> Labeled:
    """A batch of the python version, a pickled dictionary with `labels` and `data`.

    The file is not unpickled: its opcodes are read one by one, and numbers and strings taken from them, so that
    nothing it names is imported or run.

    Raises:
        ValueError: if it is damaged, or holds something else
    """
    labels: list[int] = []
    pixels: Any = ""
    key = None
    for opcode, argument, _ in pickletools.genops(path.read_bytes()):
        if isinstance(argument, (str, bytes)):
            key = argument if len(argument) < CIFAR_PIXELS else None
            pixels = max(pixels, argument, key=len)
        elif key in ("labels", b"labels") and isinstance(argument, int) and opcode.name.startswith("BININT"):
            labels.append(argument)
    content = pixels if isinstance(pixels, bytes) else pixels.encode("latin-1")
    if not labels or len(content) != CIFAR_PIXELS * len(labels):
        raise ValueError(f"{path.name} holds {len(labels):,} labels and {len(content):,} bytes of pixels")
    images = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_PIXELS)
    return images.copy(), _validate_labels(np.array(labels, dtype=np.int64), path)


def decode_jpeg(encoded: bytes) -> Bytes:
    """Pixels [C·H·W] of one image.

    Raises:
        ValueError: if it is no JPEG image of CIFAR-10's size
    """
    _, height, width = CIFAR_SHAPE
    try:
        with Image.open(BytesIO(encoded), formats=["JPEG"]) as image:
            if image.size != (width, height):
                raise ValueError(f"an image of {image.size[0]} x {image.size[1]} pixels, not {width} x {height}")
            return np.asarray(image.convert("RGB")).transpose(2, 0, 1).reshape(-1)
    except OSError as error:
        raise ValueError(f"an image cannot be decoded: {error}") from None


def _validate_labels(labels: NDArray[np.int64], path: Path) -> NDArray[np.int64]:
    if labels.min() < 0 or labels.max() >= len(CIFAR_CLASSES):
        raise ValueError(f"{path.name} has the label {labels.max()}, not 0 to {len(CIFAR_CLASSES) - 1}")
    return labels
