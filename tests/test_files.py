"""Small files that claim much are refused by arithmetic: at once, and before anything is allocated."""

import gzip
import io
import json
import struct
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from safetensors.numpy import save_file

from progcl import InputError, load_config
from progcl.checksums import DamagedFile, read_json
from progcl.data.formats import read_graph
from progcl.data.frames import read_edge_value
from progcl.data.synthetic import csbm
from progcl.files import open_text, read_file
from progcl.memory import limit_memory
from progcl.training.files import load_embeddings
from support.fuzzing import bounded_memory

EDGES = np.array([[0, 1], [1, 2]])
MTX = "%%MatrixMarket matrix {} general\n"


def npy(shape: str, kind: str = "<i8", length: int | None = None) -> bytes:
    """The header of an array, and hardly any content."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header) if length is None else length) + header + b"\0" * 16


def npz(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return content.getvalue()


def saved(**arrays: Any) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def safetensors(**shapes: tuple[list[int], int]) -> bytes:
    header = {name: {"dtype": "I64", "shape": shape, "data_offsets": [0, end]} for name, (shape, end) in shapes.items()}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 32


def torch_file(**tensors: torch.Tensor) -> bytes:
    content = io.BytesIO()
    torch.save(tensors, content)
    return content.getvalue()


def parquet(rows: int) -> bytes:
    content = io.BytesIO()
    ends = pyarrow.DictionaryArray.from_arrays(pyarrow.array(np.zeros(rows, np.int8)), ["a"])
    pyarrow.parquet.write_table(pyarrow.table({"source": ends, "target": ends}), content, compression="zstd")
    return content.getvalue()


def zeros_npy() -> bytes:
    """An archive of 160 MB of zeros."""
    return npz(x=npy("(20000000,)", "<f8")[:-16] + bytes(160_000_000))


@cache
def zeros_gzip() -> bytes:
    """160 MB of zeros below the header of a matrix, which other formats read as a comment or not at all."""
    return gzip.compress(MTX.format("coordinate real").encode() + b"0" * 160_000_000, 1)


GRAPHS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "nodes in npz": ("g.npz", lambda: saved(edge_index=EDGES, num_nodes=10**10), "10,000,000,000 nodes are declared"),
    "node in npz": ("g.npz", lambda: saved(edge_index=EDGES * 10**12), "2,000,000,000,001 nodes are declared"),
    "node in npy": ("g.npy", lambda: npy("(2, 1)")[:-16] + struct.pack("<qq", 0, 10**12), "nodes are declared in"),
    "shape in npy": ("g.npy", lambda: npy("(2, 1000000000000)"), "declares 16,000,000,000,000 bytes, 16 follow"),
    "shape in npz": ("g.npz", lambda: npz(edge_index=npy("(2, 1000000000000)")), "declares 16,000,000,000,000 bytes"),
    "negative": ("g.npy", lambda: npy("(2, -1)"), "cannot be read"),
    "empty rows": ("g.npz", lambda: npz(edge_index=npy("(2, 1)"), x=npy("(1000000000, 0)")), "1,000,000,000 rows are"),
    "empty texts": (
        "g.npz",
        lambda: npz(edge_index=npy("(2, 1)"), ids=npy("(1000000000,)", "<U0")),
        "rows are declared",
    ),
    "header": ("g.npy", lambda: npy("(2, 1)", length=2**32 - 1), "a header of 4,294,967,295 bytes"),
    "header in npz": ("g.npz", lambda: npz(edge_index=npy("(2, 1)", length=2**31)), "a header of 2,147,483,648 bytes"),
    "zeros in npz": ("g.npz", zeros_npy, "its arrays would be 160,000,... bytes"),
    "safetensors": ("g.safetensors", lambda: safetensors(edge_index=([2, 10**12], 32)), "cannot be read"),
    "its header": ("g.safetensors", lambda: struct.pack("<Q", 2**62) + b"{}", "cannot be read"),
    "its rows": (
        "g.safetensors",
        lambda: safetensors(edge_index=([2, 2], 32), x=([10**10, 0], 0)),
        "cannot be read|rows",
    ),
    "strides": (
        "g.pt",
        lambda: torch_file(edge_index=torch.zeros(1, dtype=torch.int64).expand(2, 10**9)),
        "are declared",
    ),
    "sparse": (
        "g.pt",
        lambda: torch_file(
            edge_index=torch.tensor(EDGES),
            x=torch.sparse_coo_tensor(torch.tensor(EDGES), [1.0, 1.0], (10**10, 9), check_invariants=True),
        ),
        "rows are declared",
    ),
    "mtx": ("g.mtx", lambda: (MTX.format("coordinate real") + "9 9 1000000000000\n1 1 1\n").encode(), "entries in"),
    "mtx rows": (
        "g.mtx",
        lambda: (MTX.format("coordinate real") + "9999999999 9999999999 1\n1 1 1\n").encode(),
        "rows or",
    ),
    "mtx array": ("g.mtx", lambda: (MTX.format("array real") + "100000 100000\n1\n").encode(), "entries in"),
    "no mtx rows": ("g.mtx", lambda: (MTX.format("array real") + "0 2\n1\n").encode(), "no rows and columns"),
    "oblong mtx": ("g.mtx", lambda: b"%%MatrixMarket matrix array real symmetric\n9 2\n1\n2\n3\n4\n", "symmetry"),
    "gzip": ("g.csv.gz", zeros_gzip, "times the file"),
    "gzip mtx": ("g.mtx.gz", zeros_gzip, "times the file"),
    "gzip json": ("g.json.gz", zeros_gzip, "times the file"),
    "gzip graphml": ("g.graphml.gz", zeros_gzip, "times the file"),
    "parquet": ("g.parquet", lambda: parquet(9 * 10**6), "its columns would be"),
    "nested json": ("g.json", lambda: b"[" * 10**6, "nested too deeply"),
    "attributes": (
        "g.json",
        lambda: json.dumps({"nodes": [{"id": i, f"a{i}": 1} for i in range(10**4)], "links": []}).encode(),
        "10,000 attributes of 10,000 nodes, of which nearly all are missing",
    ),
    "digits": ("g.csv", lambda: b"0,1\n1," + b"9" * 5000 + b"\n", "cannot be read"),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_claims_are_refused_before_anything_is_allocated(kind: str, tmp_path: Path) -> None:
    name, write, message = GRAPHS[kind]
    (tmp_path / name).write_bytes(write())
    start = time.process_time()
    with bounded_memory(1.5e9), pytest.raises(InputError, match=message) as caught:
        read_graph(str(tmp_path / name))
    assert time.process_time() - start < 2  # a second on a machine that does nothing else
    assert caught.value.hint
    assert "than is left" not in str(caught.value)


def test_edges_in_python_are_counted_too() -> None:
    with pytest.raises(InputError, match="1,000,000,000,001 nodes are declared"):
        read_edge_value(np.array([[0, 1, 2], [1, 2, 10**12]]))


def test_sparse_features_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("0,1\n1,2\n")
    columns = 10**9
    x: dict[str, Any] = {
        "attr_data": np.ones(1),
        "attr_indices": np.zeros(1, np.int64),
        "attr_indptr": np.array([0, 1, 1, 1]),
    }
    np.savez(tmp_path / "x.npz", **x, attr_shape=np.array([3, columns]))
    with bounded_memory(1.5e9), pytest.raises(InputError, match=r"1,000,000,000 numbers per node: .* are needed"):
        read_graph(str(tmp_path / "g.csv"), str(tmp_path / "x.npz"))


def test_a_graph_to_generate_is_counted_before() -> None:
    with pytest.raises(InputError, match=r"`data.nodes` of 10,000,000,000: .* of memory are needed"):
        csbm(nodes=10**10)


def test_an_embedding_that_claims_much(tmp_path: Path) -> None:
    (tmp_path / "embeddings.npz").write_bytes(npz(embeddings=npy("(1000000, 1000000)", "<f4")))
    with pytest.raises(DamagedFile, match="declares 4,000,000,000,000 bytes"):
        load_embeddings(tmp_path / "embeddings.npz")


LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, r"aliases \(`\*name`\) are not read"),
        ("train: " + "[" * 3000, "nested too deeply"),
        ("train: {epochs: 2001-99-99}", "is not YAML"),
        ("train: {epochs: " + "9" * 5000 + "}", "is not YAML"),
        ("train: {epochs: \x00}", "is not YAML"),
        ("train: !!python/object/apply:os.system [ls]", "is not YAML"),
    ],
)
def test_configurations_that_claim_much(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    start = time.process_time()
    with pytest.raises(InputError, match=message) as caught:
        load_config(tmp_path / "c.yaml")
    assert caught.value.hint
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "error",
    [
        *(MemoryError(), SystemError("x"), struct.error("x"), AssertionError(), RecursionError(), OverflowError("x")),
        *(
            zipfile.BadZipFile("x"),
            KeyError("x"),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
            OSError("two\nlines"),
        ),
    ],
)
def test_whatever_a_reader_raises_is_one_line_that_names_the_file(error: Exception) -> None:
    def read() -> None:
        raise error

    with pytest.raises(DamagedFile, match=r"^`some/file` is damaged: \S[^\n]*\n\nhint: \S"):
        read_file(Path("some/file"), read, "a hint", "is damaged", DamagedFile)


def test_files_of_others_stay_a_permission_error() -> None:
    def read() -> None:
        raise PermissionError("not yours")

    with pytest.raises(PermissionError):
        read_file(Path("some/file"), read, "a hint")


def test_large_compressed_files_are_read(tmp_path: Path) -> None:
    """Text that compresses well, but no better than text does."""
    lines = "".join(f"{number}\n" for number in range(10**6))
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(lines.encode(), 1))
    with open_text(tmp_path / "t.txt.gz") as file:
        assert file.read() == lines


def test_memory_that_is_limited_refuses_arrays_that_would_exceed_it(tmp_path: Path) -> None:
    save_file({"edge_index": EDGES, "x": np.zeros((3, 10**7), np.float32)}, tmp_path / "g.safetensors")
    np.savez(tmp_path / "g.npz", edge_index=EDGES, x=np.zeros((3, 10**7), np.float32))
    with limit_memory(1e8), pytest.raises(InputError, match="of memory are needed, 0 MB are left"):
        read_graph(str(tmp_path / "g.npz"))


def test_a_damaged_file_of_a_run_is_not_to_be_saved_in_another_way(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(DamagedFile, match="--resume") as damage:
        read_json(path)
    assert "UTF-8" not in str(damage.value.hint)


def test_the_size_that_a_compressed_file_declares_is_enough_to_refuse_it(tmp_path: Path) -> None:
    path = tmp_path / "g.csv.gz"
    path.write_bytes(gzip.compress(b"0,1\n")[:-4] + (4 * 10**9).to_bytes(4, "little"))
    with pytest.raises(InputError, match="would be 4,000,000,000 bytes"):
        open_text(path)
