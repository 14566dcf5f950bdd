"""Graphs by name: built-in ones, and published ones through PyG's dataset classes."""

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
from progcl.data.holdout import hold_out_links
from progcl.data.images import Cifar10, Cifar10Jpeg
from progcl.data.join import NodeData
from progcl.data.mapped import require_inside
from progcl.data.prepare import normalize_features, prepare
from progcl.data.published import FacebookPages, OgbnArxiv, read_npz_graph
from progcl.data.synthetic import csbm, digits
from progcl.errors import InputError, suggest
from progcl.precision import single_precision
from progcl.registry import pick

GOOGLE_DRIVE = "https://drive.google.com"  # where PyG downloads Flickr from
OWN = "own"  # `data.name` of a graph that was passed to `fit`
FILE = "file"  # `data.name` of a graph in the file that `data.graph` names
NETWORK_TIMEOUT = 3.0  # seconds to wait for a server before a file is reported as missing


@dataclass(frozen=True)
class Counts:
    """Sizes of a data set; an edge is an unordered pair of nodes."""

    nodes: int
    edges: int
    features: int
    classes: int

    def __str__(self) -> str:
        return f"{self.nodes} nodes, {self.edges} edges, {self.features} features, {self.classes} classes"


@dataclass(frozen=True)
class Published:
    """A public data set.

    Attributes:
        reader: PyG dataset class, or one like it
        folder: where it is below the data root
        raw: names of the raw files
        counts: as published; other counts are refused as another version or a broken download
        arguments: of the reader
        raw_folder: folder of the raw files below `folder`
        symmetric: every edge is stored once in each direction, so that edges are counted without sorting
        copy: the same graph in another format, read where the raw files are not there
        other_raw: raw files of another version of the same data, which do as well
        subset: name of a smaller data set, to try instead
    """

    reader: Any
    folder: str
    raw: tuple[str, ...]
    counts: Counts
    arguments: Mapping[str, Any] = field(default_factory=dict)
    raw_folder: str = "raw"
    symmetric: bool = False
    copy: Published | None = None
    other_raw: tuple[str, ...] = ()
    subset: str = ""

    def open(self, root: Path) -> Data:
        """Read the data set, downloading and converting it if need be; PyG writes `processed` beside `raw`."""
        return self.reader(str(root / self.folder), **self.arguments)[0]

    def home(self, root: Path) -> Path:
        """The folder that holds this data set and nothing else."""
        return root / self.folder / (self.arguments.get("name") or "")

    def raw_dir(self, root: Path) -> Path:
        """The folder in which the raw files are expected."""
        return self.home(root) / self.raw_folder

    def present(self, root: Path) -> bool:
        """Whether all raw files exist."""
        versions = [files for files in (self.raw, self.other_raw) if files]
        return any(all((self.raw_dir(root) / name).exists() for name in files) for files in versions)

    def locate(self, root: str | Path | None = None) -> tuple[Published, Path] | None:
        """What can be read without a download, and below which folder; None if the files are nowhere."""
        found = ((self, folder) for folder in roots(root) if self.present(folder))
        return next(found, self.copy.locate(root) if self.copy else None)


def load_data(
    config: DataConfig,
    root: str | Path | None = None,
    run: str | Path | None = None,
    content: NodeData | None = None,
) -> Data:
    """Load the graph that a configuration's section `data` names.

    Args:
        config: the section
        root: where published data is looked up
        run: folder of the run
        content: of the graph's file, if that is read already

    Raises:
        InputError: also if mapped features would be written elsewhere than below the data root or the folder of the run
    """
    if content is not None:
        return _prepare(content.to_data(), config.normalize, config.directed, config.holdout)
    if config.mapped:
        require_inside(Path(config.mapped), [*([Path(run)] if run else []), *roots(root)])
    return load_dataset(config.name, root, config.normalize, config.directed, config.holdout, **config.options())


@single_precision()
def load_dataset(
    name: str,
    root: str | Path | None = None,
    normalize: bool = True,
    directed: bool = False,
    holdout: float = 0.0,
    **options: Any,
) -> Data:
    """Load a graph by name, and prepare it (see `prepare`).

    Args:
        name: a name that `progcl ls data` lists
        root: folder of published data; next, that of the environment variable PROGCL_DATA and the user's cache are
            searched, then it is downloaded
        normalize: scale every row of the features to an L1 norm of 1
        directed: keep the direction of edges for features of several hops, where the data has it
        holdout: share of the edges to hold out before anything else (see `hold_out_links`)
        options: of a built-in graph, such as `csbm(nodes=...)`

    Returns:
        `Data` with `x` [N, F], `edge_index` [2, E] and, unless a file has none, `y` [N].

    Raises:
        InputError: if name or options are unknown, or if the data is missing, broken or another version
    """
    if name == OWN:
        raise InputError(
            "the run used a graph of your own, which has no file", "probe it in Python: progcl.evaluation.linear_probe"
        )
    if name == FILE and "graph" not in options:
        raise InputError("`data.graph` names no file", "use `progcl embed FILE`, or set --data.graph")
    datasets: dict[str, Published | Callable[..., Data]] = {**BUILTIN, **PUBLISHED}
    entry = pick(datasets, name, "data set")
    if isinstance(entry, Published):
        _refuse_options(name, options, [])
        data = _load_published(name, entry, root)
    else:
        _refuse_options(name, options, list(inspect.signature(entry).parameters))
        data = entry(**options)
    return _prepare(data, normalize, directed, holdout)


def _prepare(data: Data, normalize: bool, directed: bool, holdout: float) -> Data:
    """Hold out links, before anything is computed from the graph; then prepare what is left."""
    data = prepare(hold_out_links(data, holdout) if holdout else data, directed)
    return normalize_features(data) if normalize else data


def counts(data: Data, symmetric: bool = False) -> Counts:
    """Count nodes, edges, features and classes; without sorting if every edge is stored once in each direction."""
    if symmetric:
        edges = data.edge_index.size(1) // 2
    else:
        edges = coalesce(torch.stack(data.edge_index.aminmax(dim=0)), num_nodes=data.num_nodes).size(1)
    return Counts(int(data.num_nodes), edges, data.x.size(1), int(data.y.max()) + 1)


def roots(root: str | Path | None = None) -> list[Path]:
    """Folders that are searched for published data, in this order; downloads go to the first."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "progcl"
    return [Path(folder).expanduser() for folder in (root, os.environ.get("PROGCL_DATA"), cache) if folder]


def _refuse_options(name: str, options: Mapping[str, Any], known: list[str]) -> None:
    for key in options:
        if key not in known:
            hint = suggest(key, known) if known else f"`{name}` is a published data set and has no options"
            raise InputError(f"data set `{name}` has no option `{key}`", hint)


def _load_published(name: str, entry: Published, root: str | Path | None) -> Data:
    entry, folder = entry.locate(root) or (entry, roots(root)[0])
    if not entry.present(folder):
        reason = _why_unreachable(getattr(entry.reader, "url", GOOGLE_DRIVE))
        if reason:
            raise _missing(name, entry, folder, reason)
    try:
        data = entry.open(folder)
    except PermissionError as error:
        hint = "PyG writes `processed` beside `raw`: copy the folder to a writable --data-root"
        raise InputError(f"cannot write `{error.filename}`", hint) from None
    except OSError as error:
        raise _missing(name, entry, folder, str(error)) from None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        hint = f"a broken download? remove {entry.home(folder)} and try again"
        raise InputError(f"the files of `{name}` cannot be read: {error}", hint) from None
    actual = counts(data, entry.symmetric)
    if actual != entry.counts:
        hint = f"another version, or a broken download? remove {entry.home(folder)} and try again"
        raise InputError(f"`{name}` has {actual}, published are {entry.counts}", hint)
    return data


def _missing(name: str, entry: Published, root: Path, reason: str) -> InputError:
    files = ", ".join(file for file in entry.raw if not (entry.raw_dir(root) / file).exists())
    instead = f"; a part of it is --data.name {entry.subset}" if entry.subset else ""
    return InputError(
        f"data set `{name}` is not here and cannot be downloaded ({reason})",
        f"put {files} into {entry.raw_dir(root)}, or point --data-root or PROGCL_DATA at a folder that has it{instead}",
    )


def _why_unreachable(url: str) -> str:
    """Why a server does not answer; empty if it does. In a thread, as DNS look-ups have no timeout."""
    answer = [f"no answer within {NETWORK_TIMEOUT:g} s"]

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=NETWORK_TIMEOUT).close()
            answer[0] = ""
        except urllib.error.HTTPError:
            answer[0] = ""  # it answered
        except OSError as error:
            answer[0] = str(getattr(error, "reason", error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(NETWORK_TIMEOUT)
    return answer[0]


def is_here(name: str, root: str | Path | None = None) -> bool:
    """Whether a graph can be loaded by name without a download."""
    return name in BUILTIN or (name in PUBLISHED and PUBLISHED[name].locate(root) is not None)


def _planetoid(name: str, counts: Counts, copy: Published | None = None) -> Published:
    suffixes = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    files = tuple(f"ind.{name.lower()}.{suffix}" for suffix in suffixes)
    return Published(Planetoid, "planetoid", files, counts, {"name": name}, copy=copy)


BUILTIN: dict[str, Callable[..., Data]] = {"digits": digits, "csbm": csbm, FILE: read_graph}
CORA = Counts(2708, 5278, 1433, 7)
CORA_NPZ = Published(read_npz_graph, "cora", ("cora.npz",), CORA, {"file": "cora.npz"}, raw_folder="")
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
    "cora": _planetoid("Cora", CORA, CORA_NPZ),
    "citeseer": _planetoid("CiteSeer", Counts(3327, 4552, 3703, 6)),
    "pubmed": _planetoid("PubMed", Counts(19717, 44324, 500, 3)),
    "dblp": Published(CitationFull, "citationfull", ("dblp.npz",), Counts(17716, 52867, 1639, 4), {"name": "dblp"}),
    "facebook": Published(FacebookPages, "facebook", ("facebook.npz",), Counts(22470, 170823, 4714, 4), raw_folder=""),
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
    "cifar10": Published(
        Cifar10,
        "cifar10",
        Cifar10.files,
        Counts(60000, 0, 3072, 10),
        raw_folder="",
        symmetric=True,
        other_raw=Cifar10.pickled_files,
        subset="cifar10-10k-jpeg",
    ),
    "cifar10-10k-jpeg": Published(
        Cifar10Jpeg, "cifar10", (Cifar10Jpeg.file,), Counts(10000, 0, 3072, 10), raw_folder="", symmetric=True
    ),
}
