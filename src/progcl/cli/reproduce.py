"""progcl reproduce."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.cli.options import Command, add_data_root
from progcl.errors import InputError, in_range
from progcl.experiments.tables import Table, load_tables
from progcl.registry import pick

LEDGER, RUNS = "results/ledger.jsonl", "runs/reproduce"


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("table", type=str, nargs="?", help="a table; without one, all are listed with their state")
    parser.add_argument("--data", type=str, help="data sets, as in photo,cs; all of the table if not given")
    parser.add_argument("--rows", type=str, help="rows, as in dgi,gca; those without training are always there")
    parser.add_argument("--seeds", type=int, help="seeds of every row; as many as its cell says if not given")
    parser.add_argument("--fast", action="store_true", help="short runs, kept apart: to see that everything works")
    parser.add_argument("--dry-run", action="store_true", help="print the plan with its time, and stop")
    parser.add_argument("--only-ledger", action="store_true", help="print what is there: read no data, run nothing")
    parser.add_argument("--short", action="store_true", help="print fewer columns, and no notes")
    parser.add_argument("--ledger", type=str, default=LEDGER, help="file of finished runs")
    parser.add_argument("--out", type=str, default=RUNS, help="folder of run folders, from which killed runs go on")
    add_data_root(parser)


def _run(options: dict[str, Any]) -> None:
    from progcl.experiments.ledger import Ledger

    tables, ledger = load_tables(), Ledger(Path(options.get("ledger", LEDGER)))
    if not options.get("table"):
        given = [
            key for key in ("data", "rows", "seeds", "fast", "dry_run", "only_ledger", "short") if options.get(key)
        ]
        if given:
            raise InputError(f"`--{given[0].replace('_', '-')}` needs a table", f"known: {', '.join(tables)}")
        print(_list_tables(tables, ledger, options.get("data_root")))
        return
    table = pick(tables, options["table"], "table")
    if options.get("seeds") is not None:
        in_range("--seeds", options["seeds"], 1)
    _reproduce(table, ledger, options)


def _reproduce(table: Table, ledger: Any, options: dict[str, Any]) -> None:
    from progcl.experiments.plan import make_plan, read_checksums, recall_checksums
    from progcl.experiments.render import format_plan, format_table

    cells = table.select(_split(options.get("data")), _split(options.get("rows")))
    fast, only_ledger = bool(options.get("fast")), bool(options.get("only_ledger"))
    checksum = recall_checksums(ledger) if only_ledger else read_checksums(options.get("data_root"))
    shared: dict[str, Any] = {"seeds": options.get("seeds"), "fast": fast}
    plan = make_plan(table, cells, ledger, checksum, **shared)
    if options.get("dry_run"):
        print(format_plan(plan, ledger))
        return
    if not only_ledger:
        print(format_plan(plan, ledger), file=sys.stderr)
        _run_missing(plan, ledger, options)
        plan = make_plan(table, cells, ledger, checksum, **shared)
    for data in dict.fromkeys(row.cell.data for row in plan):
        rows = [row for row in plan if row.cell.data == data]
        print(format_table(table, rows, fast, short=bool(options.get("short"))), end="\n\n")


def _run_missing(plan: list[Any], ledger: Any, options: dict[str, Any]) -> None:
    from progcl.experiments.runner import Runner

    runner = Runner(ledger, Path(options.get("out", RUNS)), options.get("data_root"))
    try:
        failed = runner.run([slot for row in plan for slot in row.missing], progress=True)
    except KeyboardInterrupt:
        print("\nto go on, give the same command again", file=sys.stderr)
        raise
    ledger.reload()
    for name, message in failed.items():
        print(f"warning: {name}: {message}", file=sys.stderr)


def _list_tables(tables: dict[str, Table], ledger: Any, root: str | None) -> str:
    """Every table and data set, with the number of rows that are done."""
    from progcl.data.datasets import is_here
    from progcl.experiments.plan import make_plan, recall_checksums
    from progcl.experiments.render import align

    lines = [("table", "data", "rows", "done", "stale", "data is", "what")]
    for table in tables.values():
        for data, column in table.columns.items():
            known = any(entry.config["data"]["name"] == data for entry in ledger.entries)
            cells = column.cells.values() if known else ()  # settings take a while to resolve
            plan = make_plan(table, cells, ledger, recall_checksums(ledger))
            done = sum(not row.missing and not row.obstacle for row in plan)
            stale = sum(bool(row.stale) for row in plan)
            place = "here" if is_here(data, root) else "not here"
            lines.append((table.name, data, str(len(column.cells)), str(done), str(stale), place, column.title))
    return align(lines)


def _split(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()] if names else []


USAGE = "[TABLE] [--data NAMES] [--rows NAMES] [options]"
REPRODUCE = Command("Run a table of the paper, and print it beside the published one.", USAGE, _add_arguments, _run)
