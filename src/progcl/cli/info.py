"""progcl info."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from progcl.cli.embed import add_file_arguments, column_options, read_files
from progcl.cli.options import Command, add_data_root
from progcl.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data


def _add_arguments(parser: ArgumentParser) -> None:
    add_file_arguments(parser, "your graph as in `progcl embed`, or a name that `progcl ls data` lists")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_data_root(parser)


def _run(options: dict[str, Any]) -> None:
    is_name = not Path(options["file"]).exists() and not Path(options["file"]).suffix and "/" not in options["file"]
    content = None if is_name else read_files(options, column_options(options))
    from progcl.data.images import is_images
    from progcl.data.prepare import prepare
    from progcl.data.summary import describe, summarize
    from progcl.embed import choose_config
    from progcl.estimate import estimate

    if content is None:
        data, given = _load(options), None
    else:
        raw = content.to_data()
        data, given = prepare(raw), raw.edge_index
    if is_images(data):
        raise InputError(f"`{options['file']}` are images: they have no edges", "see `progcl ls data` for graphs")
    summary, needs = summarize(data, given), estimate(choose_config(data), data)
    if options.get("json"):
        print(json.dumps({**asdict(summary), "remarks": data.remarks, "estimate": asdict(needs)}, indent=2))
        return
    rows = [*describe(summary), ("to embed it", str(needs))]
    width = max(len(name) for name, _ in rows)
    print("\n".join([f"{name:<{width}}  {text}" for name, text in rows]))
    print("".join(f"note: {remark}\n" for remark in data.remarks), end="")


def _load(options: dict[str, Any]) -> Data:
    """A named data set; a name that is none may be a file that is not there."""
    from progcl.data.datasets import BUILTIN, FILE, PUBLISHED, load_dataset
    from progcl.errors import suggest

    name, known = options["file"], [each for each in (*BUILTIN, *PUBLISHED) if each != FILE]
    if name not in known:
        raise InputError(f"there is neither a file nor a data set `{name}`", suggest(name, known))
    return load_dataset(name, options.get("data_root"), normalize=False)


USAGE = "GRAPH [--features FILE] [--labels FILE] [--json]"
INFO = Command("Print what a graph is like, and what embedding it takes.", USAGE, _add_arguments, _run)
