"""Valid files in every format, and ways to break them: bytes, lines and numbers changed, also inside of archives."""

import gzip
import io
import json
import resource
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import networkx
import numpy as np
import pyarrow
import pyarrow.parquet
import scipy.io
import scipy.sparse
import torch
from hypothesis import strategies as st
from safetensors.numpy import save_file
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.formats import read_graph
from progcl.data.prepare import prepare
from progcl.memory import memory_left

NODES = 6
EDGES = np.array([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])
X = np.arange(3 * NODES, dtype=np.float32).reshape(NODES, 3)
Y = np.array([0, 1, 0, 1, 0, 1])
NAMES = [f"n{node}" for node in range(NODES)]
MOST_BYTES, MOST_SECONDS = 1.5e9, 5.0  # that reading one small file may take
MOST_PREPARED = 1000  # nodes, of which features are computed: a node number may well be 30,000
TOKENS = [  # that make readers stumble
    *(b"10000000000", b"1000000000000", b"-1", b"99999999999999999999999", b"1e400", b"nan", b"inf", b"0", b"", b"\0"),
    *(b"\xff\xfe", b"\n", b",", b'"', b"'", b"[" * 300, b"(" * 300, b"{", b"}", b"<", b">", b"&a;", b"%", b"# ", b"\t"),
    *(b"True", b"null", b"None", b"O8", b"<U0", b"|V0", b">f16", b"\x93NUMPY", b"PK\x03\x04", b"9" * 5000, b"\xe2\x80"),
]


class Case(NamedTuple):
    """A file to break: its name and content, and where it is used: `graph`, `features`, `labels` or `ids`."""

    name: str
    role: str
    content: bytes


def network() -> networkx.Graph:
    graph = networkx.Graph()
    for node, name in enumerate(NAMES):
        graph.add_node(name, a=float(X[node, 0]), b=int(X[node, 1]), note=f"text {node % 2}", y=int(Y[node]))
    graph.add_edges_from((NAMES[a], NAMES[b]) for a, b in EDGES.T.tolist())
    return graph


def csr(prefix: str, matrix: Any) -> dict[str, Any]:
    fields = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    return {f"{prefix}_{name}": value for name, value in fields.items()} | {f"{prefix}_shape": np.array(matrix.shape)}


def table(delimiter: str) -> str:
    rows = [["id", "size", "kind", "text", "age", "y"]]
    rows += [
        [name, str(row[0]), "ab"[row[0] % 2], f"some words {row[0]}", str(row[1] / 2), str(row[2])]
        for name, row in ((NAMES[node], (node, node * 7, Y[node])) for node in range(NODES))
    ]
    return "\n".join(delimiter.join(row) for row in rows) + "\n"


def edge_list(delimiter: str) -> str:
    return "\n".join(f"{NAMES[a]}{delimiter}{NAMES[b]}" for a, b in EDGES.T.tolist()) + "\n"


ADJACENCY = scipy.sparse.csr_matrix((np.ones(7), EDGES), (NODES, NODES))


def _write_edges(mark: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(edge_list(mark))


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{
        f"g.{kind}": ("graph", _write_edges(mark))
        for kind, mark in (("csv", ","), ("tsv", "\t"), ("txt", " "), ("edgelist", " "))
    },
    "g.parquet": (
        "graph",
        lambda path: pyarrow.parquet.write_table(
            pyarrow.table({"source": [NAMES[a] for a in EDGES[0]], "target": [NAMES[a] for a in EDGES[1]]}), path
        ),
    ),
    "g.npz": ("graph", lambda path: np.savez(path, edge_index=EDGES, x=X, y=Y, ids=np.array(NAMES), num_nodes=NODES)),
    "sparse.npz": (
        "graph",
        lambda path: np.savez_compressed(
            path, **csr("adj", ADJACENCY), **csr("attr", scipy.sparse.csr_matrix(X)), labels=Y
        ),
    ),
    "g.npy": ("graph", lambda path: np.save(path, EDGES)),
    "g.safetensors": ("graph", lambda path: save_file({"edge_index": EDGES, "x": X, "y": Y}, path)),
    "g.pt": (
        "graph",
        lambda path: torch.save(Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES), y=torch.tensor(Y)), path),
    ),
    "legacy.pt": (
        "graph",
        lambda path: torch.save(
            {"x": torch.tensor(X), "edges": torch.tensor(EDGES.T)}, path, _use_new_zipfile_serialization=False
        ),
    ),
    "g.mtx": ("graph", lambda path: scipy.io.mmwrite(path, ADJACENCY)),
    "g.graphml": ("graph", lambda path: networkx.write_graphml(network(), path)),
    "g.gexf": ("graph", lambda path: networkx.write_gexf(network(), path)),
    "g.gml": ("graph", lambda path: networkx.write_gml(network(), path)),
    "g.json": ("graph", lambda path: path.write_text(json.dumps(networkx.node_link_data(network(), edges="links")))),
    "x.csv": ("features", lambda path: path.write_text(table(","))),
    "x.tsv": ("features", lambda path: path.write_text(table("\t"))),
    "x.parquet": (
        "features",
        lambda path: pyarrow.parquet.write_table(
            pyarrow.table({"node": NAMES, "vector": X.tolist(), "kind": ["a", "b"] * 3, "size": Y / 2}), path
        ),
    ),
    "long.csv": (
        "features",
        lambda path: path.write_text(
            "node,feature,value\n" + "".join(f"n{node},f{node % 3},{node}.5\nn{node},g,1\n" for node in range(NODES))
        ),
    ),
    "x.npy": ("features", lambda path: np.save(path, X)),
    "x.npz": ("features", lambda path: np.savez(path, x=X, ids=np.array(NAMES))),
    "x.safetensors": ("features", lambda path: save_file({"x": X, "y": Y}, path)),
    "x.pt": ("features", lambda path: torch.save(torch.tensor(X), path)),
    "x.mtx": ("features", lambda path: scipy.io.mmwrite(path, scipy.sparse.coo_matrix(X))),
    "dense.mtx": ("features", lambda path: scipy.io.mmwrite(path, X)),
    "y.csv": ("labels", lambda path: path.write_text("".join(f"{NAMES[node]},c{Y[node]}\n" for node in range(NODES)))),
    "y.npy": ("labels", lambda path: np.save(path, Y)),
    "ids.txt": ("ids", lambda path: path.write_text("\n".join(NAMES))),
    "ids.npy": ("ids", lambda path: np.save(path, np.array(NAMES))),
}
PLAIN_ROLES = ("x.npy", "x.safetensors", "x.pt", "x.mtx", "dense.mtx", "y.npy")  # rows without names: ids are given
GZIPPED = ("g.csv", "g.txt", "g.mtx", "g.graphml", "g.gml", "g.json", "x.csv")


def write_cases(folder: Path) -> list[Case]:
    """Every valid file once, text also compressed."""
    cases = []
    for name, (role, write) in WRITERS.items():
        path = folder / f"valid-{name}"
        write(path)
        cases.append(Case(name, role, path.read_bytes()))
    return cases + [
        Case(f"{case.name}.gz", case.role, gzip.compress(case.content)) for case in cases if case.name in GZIPPED
    ]


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A change of bytes: one to four times flip, replace, insert, delete, cut, or another number."""
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from("firdcnn"),
                st.floats(0, 1, exclude_max=True),
                st.integers(0, 40),
                st.sampled_from(TOKENS),
                st.integers(0, 7),
            ),
            min_size=1,
            max_size=4,
        )
    )

    def change(content: bytes) -> bytes:
        for kind, place, length, token, bit in steps:
            at = int(place * len(content))
            end = at + length
            if kind == "f" and content:
                content = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
            elif kind == "n":
                content = _replace_number(content, at, token)
            else:
                new = {"i": token, "r": token, "d": b"", "c": b""}.get(kind, b"")
                rest = {"i": content[at:], "c": b""}.get(kind, content[end:])
                content = content[:at] + new + rest
        return content

    return change


def _replace_number(content: bytes, at: int, token: bytes) -> bytes:
    """The next number in the text becomes something else."""
    start = next((place for place in range(at, len(content)) if content[place : place + 1].isdigit()), len(content))
    end = next(
        (place for place in range(start, len(content)) if not content[place : place + 1].isdigit()), len(content)
    )
    return content[:start] + token + content[end:]


def mutate(case: Case, change: Callable[[bytes], bytes], inside: bool) -> bytes:
    """A broken file; with `inside`, an archive stays valid and what it holds is broken."""
    if inside and case.name.endswith(".gz"):
        return gzip.compress(change(gzip.decompress(case.content)))
    if inside and zipfile.is_zipfile(io.BytesIO(case.content)):
        return _mutate_zip(case.content, change)
    if inside and case.name.endswith(".safetensors"):
        length = int.from_bytes(case.content[:8], "little")
        header = change(case.content[8 : 8 + length])
        return len(header).to_bytes(8, "little") + header + case.content[8 + length :]
    return change(case.content)


def _mutate_zip(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """All members are joined for the change to hit any of them, and parted at the same places."""
    new = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(new, "w") as archive:
        target = len(change(b"x" * 37)) % len(old.infolist())
        for number, info in enumerate(old.infolist()):
            data = old.read(info)
            archive.writestr(info, change(data) if number == target else data)
    return new.getvalue()


def read_case(folder: Path, case: Case, content: bytes) -> Data | InputError:
    """Read a file in its role, beside valid others; a graph, or the error."""
    path = folder / case.name
    path.write_bytes(content)
    (folder / "valid.csv").write_text(edge_list(","))
    (folder / "names.txt").write_text("\n".join(NAMES))
    graph = str(path if case.role == "graph" else folder / "valid.csv")
    files: dict[str, Any] = {f"{case.role}_from": str(path)} if case.role != "graph" else {}
    if case.name in PLAIN_ROLES:
        files["ids_from"] = str(folder / "names.txt")
    try:
        data = read_graph(graph, **files)
        return prepare(data) if data.num_nodes < MOST_PREPARED else data
    except InputError as error:
        return error


def assert_refused_or_read(folder: Path, case: Case, content: bytes) -> Data | InputError:
    """A graph or an `InputError` with a hint, within bounds of time and memory."""
    start = time.process_time()
    try:
        with bounded_memory(MOST_BYTES):
            outcome = read_case(folder, case, content)
    except Exception as error:
        raise AssertionError(f"{error!r} from {case.name}: {content!r}") from error
    assert time.process_time() - start < MOST_SECONDS, f"too slow: {case.name}: {content!r}"
    if isinstance(outcome, InputError):
        assert outcome.hint
        assert len(str(outcome.args[0]).splitlines()) == 1, outcome.args[0]
        assert "than is left" not in str(outcome), f"memory was allocated before it was counted: {content!r}"
    return outcome


@contextmanager
def bounded_memory(size: float) -> Iterator[None]:
    """Let allocations beyond so many bytes fail."""
    used = int(
        next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize")).split()[
            1
        ]
    )
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(1024 * used + size), before[1]))
    try:
        assert memory_left() < 1.1 * size
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
