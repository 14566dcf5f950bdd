"""Graphs by name: two that come with the package, and the published ones through PyG's own classes."""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import threading
import urllib.error
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import Amazon, CitationFull, Coauthor, Flickr, Planetoid, Reddit, WikiCS
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from progcl.errors import InputError, in_range, suggest
from progcl.intake import own_graph, require_finite
from progcl.readers import FacebookPages, OgbnArxiv
from progcl.registry import pick

GOOGLE_DRIVE = "https://drive.google.com"  # where PyG fetches Flickr from
OWN = "own"  # what `data.name` says of a graph that was handed to `fit`
FILE = "file"  # and of one that `data.graph` names
CHUNK = 2**14  # rows of mapped features that are looked at together
PATIENCE = 3.0  # seconds to wait for a sign of the network before saying that a file is missing


@dataclass(frozen=True)
class Counts:
    """What a data set contains; an edge is an unordered pair of nodes."""

    nodes: int
    edges: int
    features: int
    classes: int

    def __str__(self) -> str:
        return f"{self.nodes} nodes, {self.edges} edges, {self.features} features, {self.classes} classes"


@dataclass(frozen=True)
class Published:
    """A public data set: the class that reads it, its place under the data root, its published counts.

    Attributes:
        inside: the folder of the raw files in that place
        symmetric: every edge is stored in both directions and once: too many to be counted otherwise
    """

    reader: Any
    folder: str
    raw: tuple[str, ...]
    counts: Counts
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inside: str = "raw"
    symmetric: bool = False

    def open(self, root: Path) -> Data:
        """Read it, downloading and converting if need be; PyG writes `processed` beside `raw`."""
        return self.reader(str(root / self.folder), **self.arguments)[0]

    def raw_dir(self, root: Path) -> Path:
        """Where the raw files are expected."""
        name = self.arguments.get("name")
        return root / self.folder / (name or "") / self.inside

    def present(self, root: Path) -> bool:
        """Whether the raw files are there."""
        return all((self.raw_dir(root) / name).exists() for name in self.raw)


def load(name: str, root: str | Path | None = None, normalize: bool = True, **options: Any) -> Data:
    """A graph by name as PyG `Data` with `x`, `edge_index` and `y`.

    Published data is looked up in `root`, then in the folder that PROGCL_DATA names, then in the user's cache,
    and downloaded where there is a network.
    """
    if name == OWN:
        raise InputError("the run was made with a graph of your own", "probe it in Python: progcl.probe.probe")
    if name == FILE and "graph" not in options:
        raise InputError("`data.graph` names no file", "`progcl embed FILE` does; or set --data.graph")
    known: dict[str, Published | Callable[..., Data]] = {**EMBEDDED, **PUBLISHED}
    entry = pick(known, name, "data set")
    if isinstance(entry, Published):
        _refuse_options(name, options, [])
        data = _load_published(name, entry, root)
    else:
        _refuse_options(name, options, list(inspect.signature(entry).parameters))
        data = entry(**options)
    return normalized(data) if normalize else data


def normalized(data: Data) -> Data:
    """Each row of the features with absolute sum 1; of mapped features, the factors are kept instead."""
    if data.get("mapped"):
        sums = torch.cat([part.abs().sum(dim=1) for part in data.x.split(CHUNK)])
        data.row_scale = sums.clamp_min(1e-12).reciprocal()
    else:
        data.x = torch.nn.functional.normalize(data.x, p=1, dim=1)
    return data


def checked(data: Data) -> Data:
    """A user's graph in the form that training expects; raise `InputError` where that cannot be had."""
    for name in ("x", "edge_index"):
        if data.get(name) is None:
            raise InputError(f"the graph has no `{name}`", "Data(x=[N, F] features, edge_index=[2, E] node pairs)")
    mapped = isinstance(data.x, np.memmap)
    x, edges, labels = _mapped_rows(data.x) if mapped else data.x, data.edge_index, data.get("y")
    if x.dim() != 2 or edges.dim() != 2 or len(edges) != 2 or edges.is_floating_point():
        shapes = f"x {list(x.shape)}, edge_index {list(edges.shape)} {edges.dtype}"
        raise InputError(f"the graph needs x [N, F] and whole numbers edge_index [2, E] (got {shapes})")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(x):
        raise InputError(f"edge_index names node {int(edges.max())}, x has {len(x)} rows", "nodes count from 0")
    require_finite(x)
    if labels is not None and labels.numel() != len(x):
        raise InputError(f"y has {labels.numel()} values for {len(x)} nodes")
    clean = copy.copy(data)
    clean.x, clean.edge_index, clean.mapped = x.float(), edges.long(), mapped
    if labels is not None:
        clean.y = labels.flatten().long()
    return clean


def held_out(data: Data) -> tuple[Tensor, Tensor, Tensor]:
    """Training, validation and test nodes: the data's own if it has one such split, else always the same 60/20/20 %."""
    masks = [data.get(f"{name}_mask") for name in ("train", "val", "test")]
    if all(mask is not None and mask.dim() == 1 for mask in masks):
        train, validation, test = (mask.nonzero().flatten() for mask in masks)
        return train, validation, test
    if masks[0] is not None:
        message = "the data has several splits of its own, or only a part of one"
        raise InputError(message, "give train_mask, val_mask and test_mask one column each, or none of them")
    nodes = int(data.num_nodes)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(nodes))
    train, validation, test = (part.sort().values for part in order.tensor_split((nodes * 3 // 5, nodes * 4 // 5)))
    return train, validation, test


def oracle_classes(data: Data) -> Tensor:
    """The labels, for an estimator that was asked for by name to use them: for analysis, never for a result."""
    if data.get("y") is None:
        raise InputError("`oracle` needs labels, and the graph has none", "choose another --miner.estimator")
    labels: Tensor = data.y
    return labels


def names_of_classes(data: Data) -> list[str] | None:
    """What every node's class is called, for pictures; None without labels."""
    if data.get("y") is None:
        return None
    names = data.get("classes")
    return [names[number] if names else str(number) for number in data.y.tolist()]


def fingerprint(data: Data) -> int:
    """A number that tells graphs apart, so that a run is not resumed on another one."""
    parts = (data.x.contiguous().numpy(), data.edge_index.contiguous().numpy())
    return zlib.crc32(parts[1].data, zlib.crc32(parts[0].data))


def counts(data: Data, symmetric: bool = False) -> Counts:
    """Count what is in a graph; of a `symmetric` one, every edge is known to be there in both directions, and once."""
    if symmetric:
        return Counts(int(data.num_nodes), data.edge_index.size(1) // 2, data.x.size(1), int(data.y.max()) + 1)
    source, target = data.edge_index
    pairs = torch.stack([torch.minimum(source, target), torch.maximum(source, target)])
    unordered = coalesce(pairs, num_nodes=data.num_nodes).size(1)
    return Counts(int(data.num_nodes), unordered, data.x.size(1), int(data.y.max()) + 1)


def roots(root: str | Path | None = None) -> list[Path]:
    """Where published data is looked up, first match wins; the first one receives downloads."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "progcl"
    return [Path(place).expanduser() for place in (root, os.environ.get("PROGCL_DATA"), cache) if place]


def digits(neighbors: int = 10) -> Data:
    """Scikit-learn's 1,797 images of 8x8 pixels, each tied to its nearest neighbours in pixel space."""
    in_range("data.neighbors", neighbors, 1, 1796)
    images, labels = load_digits(return_X_y=True)
    return image_graph(images, labels, neighbors)


def image_graph(images: NDArray[np.float64], labels: NDArray[np.int64], neighbors: int) -> Data:
    """Images with pixels from 0 to 16 as the rows of a graph, each tied to its nearest ones."""
    graph = kneighbors_graph(images, neighbors).tocoo()
    edges = torch.from_numpy(np.stack([graph.row, graph.col]).astype(np.int64))
    return Data(
        x=torch.from_numpy(images / 16).float(),
        edge_index=to_undirected(edges, num_nodes=len(images)),
        y=torch.from_numpy(labels).long(),
    )


def csbm(
    nodes: int = 2000,
    classes: int = 5,
    degree: float = 10.0,
    homophily: float = 0.8,
    features: int = 32,
    signal: float = 1.0,
    mapped: str | None = None,
    seed: int = 0,
) -> Data:
    """Contextual stochastic block model: classes, edges that prefer them, and noisy features around class means.

    `degree`·nodes/2 edges are drawn, each with probability `homophily` inside a class and else between two; loops
    and repeated edges are dropped. Class means have length `signal`, the noise has variance 1 in each feature. With
    `mapped`, the features are in that file, and written to it if it is not there.
    """
    in_range("data.classes", classes, 2)
    in_range("data.nodes", nodes, 2 * classes, hint="at least two nodes a class")
    in_range("data.homophily", homophily, 0, 1)
    in_range("data.degree", degree, 0, nodes - 1)
    in_range("data.features", features, 1)
    in_range("data.signal", signal, 0)
    in_range("data.seed", seed, 0, 2**63 - 1)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(nodes) % classes
    edges = _block_model_edges(nodes, classes, round(degree * nodes / 2), homophily, generator)
    means = torch.nn.functional.normalize(torch.randn(classes, features, generator=generator), dim=1) * signal
    if mapped is None:
        x = torch.randn(nodes, features, generator=generator).add_(means[labels])
        return Data(x=x, edge_index=edges, y=labels)
    settings = {"nodes": nodes, "classes": classes, "degree": degree, "homophily": homophily, "features": features}
    settings |= {"signal": signal, "seed": seed}
    rows = (torch.randn(len(part), features, generator=generator).add_(means[part]) for part in labels.split(CHUNK))
    x = _written_rows(Path(mapped), (nodes, features), rows, settings)
    return Data(x=x, edge_index=edges, y=labels, mapped=True)


def _written_rows(path: Path, shape: tuple[int, int], rows: Iterable[Tensor], settings: dict[str, Any]) -> Tensor:
    """Rows in a file that is mapped, written there once; what it was made of stands beside it."""
    note = path.with_name(f"{path.name}.json")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        file = np.lib.format.open_memmap(unfinished, "w+", np.float32, shape)
        start = 0
        for part in rows:
            file[start : start + len(part)] = part.numpy()
            start += len(part)
        file.flush()
        note.write_text(json.dumps(settings))
        unfinished.replace(path)  # a reader sees all of it, or none
    if not note.exists() or json.loads(note.read_text()) != settings:
        raise InputError(f"`{path}` holds other features", "remove it, or name another file as --data.mapped")
    return _mapped_rows(np.load(path, mmap_mode="r"))


def _mapped_rows(file: np.memmap[Any, Any]) -> Tensor:
    """A mapped file as a tensor; what is not read stays on disk."""
    if file.dtype != np.float32:
        raise InputError(f"mapped features need to be float32 (got {file.dtype})", "x.astype('float32')")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # nothing writes
        return torch.from_numpy(file)


def _block_model_edges(nodes: int, classes: int, edges: int, homophily: float, generator: torch.Generator) -> Tensor:
    """Node i has class i mod classes, so a class's members are an arithmetic progression."""
    source = torch.randint(0, nodes, (edges,), generator=generator)
    outside = torch.rand(edges, generator=generator) >= homophily
    step = torch.randint(1, classes, (edges,), generator=generator) * outside
    label = (source + step) % classes
    size = (nodes - label + classes - 1) // classes
    member = (torch.rand(edges, generator=generator, dtype=torch.float64) * size).long()
    pairs, _ = remove_self_loops(torch.stack([source, member * classes + label]))
    both: Tensor = to_undirected(pairs, num_nodes=nodes)
    return both


def _refuse_options(name: str, options: Mapping[str, Any], known: list[str]) -> None:
    for key in options:
        if key not in known:
            hint = suggest(key, known) if known else f"`{name}` is a published data set and has no options"
            raise InputError(f"data set `{name}` has no option `{key}`", hint)


def _load_published(name: str, entry: Published, root: str | Path | None) -> Data:
    places = roots(root)
    place = next((place for place in places if entry.present(place)), None)
    if place is None:
        place = places[0]
        reason = _unreachable(getattr(entry.reader, "url", GOOGLE_DRIVE))
        if reason:
            raise _missing(name, entry, place, reason)
    try:
        data = entry.open(place)
    except PermissionError as error:
        hint = "PyG writes `processed` beside `raw`: copy the folder to a writable --data-root"
        raise InputError(f"cannot write `{error.filename}`", hint) from None
    except OSError as error:
        raise _missing(name, entry, place, str(error)) from None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        hint = f"a broken download? remove {entry.raw_dir(place).parent} and try again"
        raise InputError(f"the files of `{name}` cannot be read: {error}", hint) from None
    found = counts(data, entry.symmetric)
    if found != entry.counts:
        hint = f"another version, or a broken download? remove {entry.raw_dir(place).parent} and try again"
        raise InputError(f"`{name}` has {found}, published are {entry.counts}", hint)
    return data


def _missing(name: str, entry: Published, place: Path, reason: str) -> InputError:
    files = ", ".join(file for file in entry.raw if not (entry.raw_dir(place) / file).exists())
    return InputError(
        f"data set `{name}` is not here and cannot be downloaded ({reason})",
        f"put {files} into {entry.raw_dir(place)}, or point --data-root or PROGCL_DATA at a folder that has it",
    )


def _unreachable(url: str) -> str:
    """Why the server does not answer, or nothing if it does. Name look-ups know no time-out, so a thread waits."""
    answer = [f"no answer within {PATIENCE:g} s"]

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PATIENCE).close()
            answer[0] = ""
        except urllib.error.HTTPError:
            answer[0] = ""  # it answered
        except OSError as error:
            answer[0] = str(getattr(error, "reason", error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return answer[0]


def _planetoid(name: str, *numbers: int) -> Published:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    files = tuple(f"ind.{name.lower()}.{part}" for part in parts)
    return Published(Planetoid, "planetoid", files, Counts(*numbers), {"name": name})


EMBEDDED: dict[str, Callable[..., Data]] = {"digits": digits, "csbm": csbm, FILE: own_graph}

PUBLISHED: dict[str, Published] = {
    "photo": Published(
        Amazon, "amazon", ("amazon_electronics_photo.npz",), Counts(7650, 119081, 745, 8), {"name": "Photo"}
    ),
    "computers": Published(
        Amazon,
        "amazon",
        ("amazon_electronics_computers.npz",),
        Counts(13752, 245861, 767, 10),
        {"name": "Computers"},
    ),
    "cs": Published(Coauthor, "coauthor", ("ms_academic_cs.npz",), Counts(18333, 81894, 6805, 15), {"name": "CS"}),
    "physics": Published(
        Coauthor, "coauthor", ("ms_academic_phy.npz",), Counts(34493, 247962, 8415, 5), {"name": "Physics"}
    ),
    "wikics": Published(WikiCS, "wikics", ("data.json",), Counts(11701, 216123, 300, 10), {"is_undirected": True}),
    "cora": _planetoid("Cora", 2708, 5278, 1433, 7),
    "citeseer": _planetoid("CiteSeer", 3327, 4552, 3703, 6),
    "pubmed": _planetoid("PubMed", 19717, 44324, 500, 3),
    "dblp": Published(CitationFull, "citationfull", ("dblp.npz",), Counts(17716, 52867, 1639, 4), {"name": "dblp"}),
    "facebook": Published(FacebookPages, "facebook", ("facebook.npz",), Counts(22470, 170823, 4714, 4), inside=""),
    "flickr": Published(
        Flickr,
        "flickr",
        ("adj_full.npz", "feats.npy", "class_map.json", "role.json"),
        Counts(89250, 449878, 500, 7),
        symmetric=True,
    ),
    "reddit": Published(
        Reddit,
        "reddit",
        ("reddit_data.npz", "reddit_graph.npz"),
        Counts(232965, 57307946, 602, 41),
        symmetric=True,
    ),
    "ogbn-arxiv": Published(
        OgbnArxiv, "ogbn_arxiv", OgbnArxiv.raw_file_names, Counts(169343, 1157799, 128, 40), symmetric=True
    ),
}
