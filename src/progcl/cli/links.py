"""progcl links, neighbors, export: what the embedding of a finished run says about its nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from progcl.cli.options import Command, add_allow_code, add_data_root, require_files
from progcl.config.load import load_config
from progcl.errors import InputError, in_range

if TYPE_CHECKING:
    from progcl.clusters import Clusters

TOP = 100


def _add_run(parser: ArgumentParser, files: str) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("-o", "--out", type=str, help=files)
    parser.add_argument("--force", action="store_true", help="overwrite what is there")


def _add_links_arguments(parser: ArgumentParser) -> None:
    _add_run(parser, "table to write: .csv, .tsv, .parquet or .npz; printed if not given")
    parser.add_argument("--top", type=int, help=f"how many of the most probable missing edges; {TOP} if not given")
    parser.add_argument("--pairs", type=str, help="file with two names in a line: score these pairs instead")
    add_data_root(parser)
    add_allow_code(parser)


def _links(options: dict[str, Any]) -> None:
    run = Path(options["run"])
    if options.get("pairs") is not None and options.get("top") is not None:
        raise InputError("--top finds pairs, --pairs names them", "give one of both")
    in_range("--top", options.get("top", TOP), 1, hint="for example --top 20")
    from progcl.export import load_run_embeddings, require_run

    out, (vectors, ids) = _checked_out(options), load_run_embeddings(run)
    if options.get("pairs") is None:
        require_run(run, "links with --pairs")
    else:
        require_files(options["pairs"])
    from progcl.links import load_edges, score_pairs, top_links
    from progcl.pairs import find_pairs

    if options.get("pairs") is not None:
        pairs, remarks = find_pairs(options["pairs"], ids)
        _print_notes(remarks)
        scores = score_pairs(vectors, pairs)
    else:
        config = load_config(run / "config.yaml", allow_code=options.get("allow_code", False))
        edges = load_edges(config.data, ids, options.get("data_root"), run)
        pairs, scores = top_links(vectors, edges, options.get("top", TOP), progress=True)
        _print_notes([] if len(scores) else ["an edge joins any two nodes: none is missing"])
    _print_trust(run)
    _write(out, iter([(*pairs, scores)]), ids, ("source", "target", "score"), options)


def _print_trust(run: Path) -> None:
    """How well the run's cosines predict links, if it was measured."""
    from progcl.evaluation.links import load_link_scores

    own = next(iter(load_link_scores(run).values()), None)
    hint = "`progcl embed GRAPH --evaluate links` measures how well cosines predict links of this graph"
    _print_notes([f"of {own.links:,} links that were kept from this run: {own}" if own else hint])


def _add_neighbors_arguments(parser: ArgumentParser) -> None:
    _add_run(parser, "--all: table to write: .csv, .tsv, .parquet or .npz; printed if not given")
    parser.add_argument("node", type=str, nargs="?", help="name of a node, or its number from 0 if nodes have no names")
    parser.add_argument("--all", action="store_true", help="of every node instead of one")
    parser.add_argument("-k", "--number", type=int, default=10, help="how many neighbors of a node")
    parser.add_argument("--search", type=str, default="auto", help="--all: exact, faiss (misses a few), or auto")


def _neighbors(options: dict[str, Any]) -> None:
    from progcl.export import find_node, load_run_embeddings, nearest

    run, node, number = Path(options["run"]), options.get("node"), options.get("number", 10)
    in_range("-k", number, 1, hint="for example -k 10")
    if (node is None) != bool(options.get("all")):
        raise InputError("name one node, or --all of them", "progcl neighbors RUN NODE, or progcl neighbors RUN --all")
    if node is None:
        _all_neighbors(run, number, options)
        return
    for flag in ("out", "search"):
        if flag in options:
            raise InputError(f"--{flag} goes with --all", "leave out the node, or the option")
    vectors, ids = load_run_embeddings(run)
    rows = nearest(vectors, find_node(node, ids), number)
    print("\n".join(["node\tcosine", *(f"{ids[other]}\t{cosine:.4f}" for other, cosine in rows)]))


def _all_neighbors(run: Path, number: int, options: dict[str, Any]) -> None:
    from progcl.export import load_run_embeddings

    out, search = _checked_out(options), options.get("search", "auto")
    if search not in ("auto", "exact", "faiss"):
        raise InputError(f"there is no --search {search}", "auto, exact or faiss")
    vectors, ids = load_run_embeddings(run)
    from progcl.neighbors import neighbor_blocks, uses_faiss

    if number >= len(ids):
        _print_notes([f"there are {len(ids)} nodes, so every node has {len(ids) - 1} others"])
    if uses_faiss(len(ids), search):
        _print_notes(["found by faiss, which misses a few: --search exact compares all nodes"])
    found = neighbor_blocks(vectors, number, search, progress=True)
    blocks = ((nodes.repeat(near.shape[1]), near.ravel(), cosines.ravel()) for nodes, near, cosines in found)
    _write(out, blocks, ids, ("node", "neighbor", "cosine"), options)


def _checked_out(options: dict[str, Any]) -> Path | None:
    """--out, before anything is computed that could not be written."""
    from progcl.pairs import check_pairs_file

    out = Path(options["out"]) if options.get("out") else None
    if out:
        check_pairs_file(out, options.get("force", False))
    return out


def _write(out: Path | None, blocks: Any, ids: list[str], columns: tuple[str, str, str], options: Any) -> None:
    """Write pairs to a file, or print them."""
    from progcl.pairs import write_pairs

    if out:
        write_pairs(out, blocks, ids, columns, options.get("force", False))
        print(out)
        return
    print("\t".join(columns))
    for block in blocks:
        for first, second, score in zip(*block, strict=True):
            print(f"{ids[first]}\t{ids[second]}\t{score:.4f}")


def _add_export_arguments(parser: ArgumentParser) -> None:
    _add_run(parser, "file (tensorboard, faiss: folder) to write; beside the run if not given")
    parser.add_argument("--format", type=str, default="npz", help="npz, csv, parquet, word2vec, tensorboard or faiss")
    parser.add_argument("--clusters", type=str, help="auto, or a number: add the cluster of each node as a column")
    add_data_root(parser)
    add_allow_code(parser)


def _export(options: dict[str, Any]) -> None:
    from progcl.export import export

    run, out = Path(options["run"]), Path(options["out"]) if options.get("out") else None
    clusters = _find_clusters(run, options) if options.get("clusters") is not None else None
    print(export(run, options.get("format", "npz"), out, options.get("force", False), clusters))


def _find_clusters(run: Path, options: dict[str, Any]) -> Clusters:
    """Cluster a run, and say how good that is: by silhouette, and by labels if the graph has some."""
    from progcl.clusters import find_clusters
    from progcl.data.datasets import load_data
    from progcl.data.walk_factors import node_names
    from progcl.evaluation.clusters import compare_with_labels, describe_clusters
    from progcl.export import load_run_embeddings, require_same_nodes

    number = parse_clusters(options["clusters"])
    vectors, ids = load_run_embeddings(run)
    clusters, agreement = find_clusters(vectors, number), {}
    try:
        config = load_config(run / "config.yaml", allow_code=options.get("allow_code", False))
        data = load_data(config.data, options.get("data_root"), run)
        require_same_nodes(ids, node_names(data))
        agreement = compare_with_labels(clusters, data)
    except InputError as error:
        _print_notes([f"clusters are not compared with labels: {error.args[0]}"])
    _print_notes([describe_clusters(clusters, agreement)])
    return clusters


def parse_clusters(text: str) -> Any:
    """A number of clusters, or auto."""
    if text == "auto" or (text.isdecimal() and int(text) > 0):
        return text if text == "auto" else int(text)
    raise InputError(f"`--clusters` needs auto or a number (got {text})", "for example --clusters 8")


def _print_notes(notes: list[str]) -> None:
    print("".join(f"note: {note}\n" for note in notes), file=sys.stderr, end="")


LINKS = Command(
    "Print the most probable missing edges of a run, or score given pairs.",
    "RUN [--top N | --pairs FILE] [-o FILE]",
    _add_links_arguments,
    _links,
)
NEIGHBORS = Command(
    "Print the nodes most similar to one, or to each, in a run.",
    "RUN NODE [-k K]  |  RUN --all [-k K] [-o FILE]",
    _add_neighbors_arguments,
    _neighbors,
)
EXPORT = Command(
    "Write the embedding of a run in another tool's format.",
    "RUN [--format FORMAT] [--clusters K] [-o PATH] [--force]",
    _add_export_arguments,
    _export,
)
