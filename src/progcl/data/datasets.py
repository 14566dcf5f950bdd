"""Graphs by name: two that come with the package, and the published ones through PyG's own classes."""

from __future__ import annotations

import inspect
import os
import pickle
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.datasets import Amazon, CitationFull, Coauthor, Flickr, Planetoid, Reddit, WikiCS
from torch_geometric.utils import coalesce

from progcl.config.schema import DataConfig
from progcl.data.formats import read_graph
from progcl.data.prepare import normalized, prepare
from progcl.data.published import FacebookPages, OgbnArxiv
from progcl.data.synthetic import csbm, digits
from progcl.errors import InputError, suggest
from progcl.registry import pick

GOOGLE_DRIVE = "https://drive.google.com"  # where PyG fetches Flickr from
OWN = "own"  # what `data.name` says of a graph that was handed to `fit`
FILE = "file"  # and of one that `data.graph` names
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


def load_data(config: DataConfig, root: str | Path | None = None) -> Data:
    """Load the graph that a configuration's section `data` names."""
    return load_dataset(config.name, root, config.normalize, **config.options())


def load_dataset(name: str, root: str | Path | None = None, normalize: bool = True, **options: Any) -> Data:
    """Load a graph by name, as PyG `Data` with `x`, `edge_index` and `y`.

    Published data is looked up in `root`, then in the folder that PROGCL_DATA names, then in the user's cache,
    and downloaded where there is a network.
    """
    if name == OWN:
        raise InputError(
            "the run was made with a graph of your own", "probe it in Python: progcl.evaluation.linear_probe"
        )
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


def own_graph(graph: str, features_from: str | None = None, labels_from: str | None = None) -> Data:
    """A graph of your own from a file; `progcl embed --help` lists the formats."""
    return prepare(read_graph(graph, features_from, labels_from))


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
