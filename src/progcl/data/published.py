"""Readers of published data sets that PyG has no class for."""

from __future__ import annotations

import json
import urllib.request
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch_geometric.data import Data, InMemoryDataset, download_url, extract_zip
from torch_geometric.io import read_npz
from torch_geometric.utils import index_to_mask, to_undirected


class OgbnArxiv(InMemoryDataset):  # type: ignore[misc]
    """OGB's citation graph from the raw files of its archive; citations become undirected edges.

    `root` has the archive's layout: raw/edge.csv.gz, raw/node-feat.csv.gz, raw/node-label.csv.gz, split/time/*.csv.gz.
    """

    url = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
    raw_file_names = (
        *("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz"),
        *(f"../split/time/{name}.csv.gz" for name in ("train", "valid", "test")),
    )
    processed_file_names = "data.pt"

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.load(self.processed_paths[0])

    def download(self) -> None:
        """Download the archive, and move what is in its one folder to the root."""
        archive = download_url(self.url, self.root)
        extract_zip(archive, self.root)
        Path(archive).unlink()
        for source in Path(self.root, "arxiv").iterdir():
            target = Path(self.root, source.name)
            if target.is_dir() and not any(target.iterdir()):  # PyG has made `raw` already
                target.rmdir()
            if not target.exists():
                source.rename(target)

    def process(self) -> None:
        """Read the tables once; later runs load PyG's copy."""
        x = torch.from_numpy(_read_table(self.raw_dir, "node-feat", np.float32))
        edges = torch.from_numpy(_read_table(self.raw_dir, "edge", np.int64).T.copy())
        labels = torch.from_numpy(_read_table(self.raw_dir, "node-label", np.int64)).flatten()
        data = Data(x=x, edge_index=to_undirected(edges, num_nodes=len(x)), y=labels)
        for name, file in (("train", "train"), ("val", "valid"), ("test", "test")):
            nodes = torch.from_numpy(_read_table(Path(self.root, "split", "time"), file, np.int64)).flatten()
            data[f"{name}_mask"] = index_to_mask(nodes, len(x))
        self.save([data], self.processed_paths[0])


class FacebookPages:
    """MUSAE's graph of Facebook pages with all 4,714 features, from an .npz in CSR form.

    Without that file, SNAP's archive is downloaded and converted.
    """

    url = "https://snap.stanford.edu/data/facebook_large.zip"
    file = "facebook.npz"

    def __init__(self, root: str) -> None:
        path = Path(root, self.file)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with urllib.request.urlopen(self.url) as answer:
                convert_facebook(answer.read(), path)
        self.data = read_npz_graph(root, self.file)[0]

    def __getitem__(self, index: int) -> Data:
        return [self.data][index]


def read_npz_graph(root: str, file: str) -> list[Data]:
    """A graph in an .npz in CSR form, as the one item of a data set; its edges become undirected."""
    data = read_npz(str(Path(root, file)))
    data.edge_index = to_undirected(data.edge_index, num_nodes=data.num_nodes)
    return [data]


def convert_facebook(archive: bytes, path: Path) -> None:
    """Convert SNAP's tables of edges, features and page types to one .npz that PyG's `read_npz` reads."""
    with zipfile.ZipFile(BytesIO(archive)) as files:
        names = {Path(name).name: name for name in files.namelist()}
        edges = np.loadtxt(files.open(names["musae_facebook_edges.csv"]), np.int64, delimiter=",", skiprows=1)
        features = json.loads(files.read(names["musae_facebook_features.json"]))
        lines = files.read(names["musae_facebook_target.csv"]).decode().splitlines()[1:]
    nodes = len(lines)
    page_types = [line.rsplit(",", 1)[1] for line in lines]  # page names hold commas, the last column does not
    order = [int(line.split(",", 1)[0]) for line in lines]
    labels = np.empty(nodes, np.int64)
    labels[order] = np.unique(page_types, return_inverse=True)[1]
    rows = np.repeat(np.arange(nodes), [len(features[str(node)]) for node in range(nodes)])
    columns = np.concatenate([np.asarray(features[str(node)], np.int64) for node in range(nodes)])
    x = scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)))
    x.data[:] = 1  # a feature that is listed twice counts once
    adjacency = scipy.sparse.csr_matrix((np.ones(len(edges), np.float32), edges.T), (nodes, nodes))
    arrays = {
        f"{name}_{key}": getattr(matrix, key)
        for name, matrix in (("adj", adjacency), ("attr", x))
        for key in ("data", "indices", "indptr", "shape")
    }
    np.savez_compressed(path, labels=labels, **arrays)


def _read_table(folder: str | Path, name: str, dtype: Any) -> Any:
    """A compressed table of numbers without a header, [rows, columns]."""
    return np.loadtxt(Path(folder, f"{name}.csv.gz"), dtype, delimiter=",", ndmin=2)
