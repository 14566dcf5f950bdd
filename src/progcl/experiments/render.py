"""Plans and tables as text: what was measured beside what was published, with a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, stdev

from progcl.budget import format_seconds
from progcl.errors import InputError
from progcl.evaluation.significance import paired_difference
from progcl.experiments.ledger import Entry, Ledger
from progcl.experiments.plan import PlannedRow, estimate_seconds, make_plan, recall_checksums
from progcl.experiments.tables import PROTOCOLS, Cell, Table

CLOSE, FAR = 0.5, 1.5  # points: as published up to the first, to be looked into beyond the second
HEAD = ("", *PROTOCOLS, "published", "difference", "gain of mining", "seeds", "training", "memory", "verdict")
SHORT = ("", *PROTOCOLS, "published", "gain of mining", "seeds")
OPTIONS = r"(?P<table>\S+) --data (?P<data>\S+)( --rows (?P<rows>\S+))?(?P<short> --short)?"
MARKER = re.compile(rf"(?P<begin><!-- progcl reproduce {OPTIONS} -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def format_plan(rows: Iterable[PlannedRow], ledger: Ledger) -> str:
    """The rows with their state, and the time of what is missing."""
    lines = [("row", "seeds", "state", "to run", "time on one core")]
    total, unknown, runs = 0.0, 0, 0
    for row in rows:
        seconds = [estimate_seconds(slot.run, ledger) for slot in row.missing]
        known = [each for each in seconds if each is not None]
        total, runs = total + sum(known), runs + len(seconds)
        unknown += len(seconds) - len(known)
        name = f"{row.cell.data} {row.cell.row}" + (f" ({row.cell.length})" if row.cell.length else "")
        time = format_seconds(sum(known)) if len(known) == len(seconds) else "not known"
        numbers = (str(len(row.slots) or ""), row.state, str(len(seconds) or ""), time if seconds else "")
        lines.append((name, *numbers))
    summary = f"{runs} runs to do, about {format_seconds(total)}" if runs else "nothing to run"
    summary += f", and {unknown} whose time is not known" if unknown else ""
    return "\n".join([align(lines), summary + (": training, and the probe under three protocols" if runs else "")])


def format_table(table: Table, rows: Sequence[PlannedRow], fast: bool = False, short: bool = False) -> str:
    """Markdown table of one data set, and notes on its rows; `short` has fewer columns and no notes."""
    planned = {row.cell.row: row for row in rows}
    cells = [_format_row(table, row, planned.get(row.cell.base or "")) for row in rows]
    title = f"**{table.columns[rows[0].cell.data].title}**, {table.title.split(' (')[0]}; "
    splits = f"{'short runs, to see that they work: no result; ' if fast else ''}mean ± std over seeds"
    kept = [HEAD.index(name) for name in (SHORT if short else HEAD)]
    lines = [[line[column] for column in kept] for line in (HEAD, *cells)]
    return "\n".join([title + splits, "", _markdown(lines), *([] if short else _notes(table, rows))])


def judge(ours: float, cell: Cell) -> str:
    """Verdict on a score under the published figure's protocol."""
    if cell.published is None:
        return "nothing published"
    difference = ours - cell.published.value
    if difference < -FAR:
        verdict = "far below: see the note" if cell.finding else "far below: not yet explained"
    elif difference < -CLOSE:
        verdict = "below"
    else:
        verdict = "as published" if difference <= CLOSE else "above"
    silent = "" if cell.published.protocol else ", protocol not said"
    return verdict + silent + (", shorter run" if cell.length else "")


def refresh_page(text: str, tables: Mapping[str, Table], ledger: Ledger) -> str:
    """A page with new tables, made from what the ledger has.

    They stand between `<!-- progcl reproduce TABLE --data DATA [--rows A,B] [--short] -->` and `<!-- end -->`.
    """

    def render(match: re.Match[str]) -> str:
        table, rows = tables[match["table"]], (match["rows"] or "").split(",")
        cells = table.select([match["data"]], filter(None, rows))
        plan = make_plan(table, cells, ledger, recall_checksums(ledger))
        return f"{match['begin']}{format_table(table, plan, short=bool(match['short']))}\n{match['end']}"

    return MARKER.sub(render, text)


def align(lines: Sequence[Sequence[str]]) -> str:
    """Columns of equal width."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def _format_row(table: Table, row: PlannedRow, base: PlannedRow | None) -> tuple[str, ...]:
    cell, title = row.cell, table.rows[row.cell.row].title
    published = str(cell.published) if cell.published else ""
    entries = [slot.found.entry for slot in row.slots if slot.found.is_current and slot.found.entry]
    if not entries:
        return (title, "", "", "", published, "", "", "", "", "", row.state)
    scores = [
        format_scores([mean(entry.scores[name]) for entry in entries if name in entry.scores]) for name in PROTOCOLS
    ]
    protocol = (cell.published.protocol if cell.published else None) or "clean"
    own = "supervised" if "supervised" in entries[0].scores else protocol
    if own == "supervised":
        scores[0] = format_scores([mean(entry.scores[own]) for entry in entries]) + " (with labels)"
    ours = mean(mean(entry.scores[own]) for entry in entries)
    difference = f"{ours - cell.published.value:+.2f}" if cell.published else ""
    peaks = [entry.peak_mb for entry in entries if entry.peak_mb is not None]
    memory = f"{max(peaks) / 1000:.1f} GB" if peaks else ""
    time = format_seconds(mean(entry.seconds["train"] for entry in entries))
    verdict = judge(ours, cell) + (f"; {row.state}" if row.missing else "")
    gain = _format_gain(row, base, own) if base else ""
    return (title, *scores, published, difference, gain, str(len(entries)), time, memory, verdict)


def _format_gain(row: PlannedRow, base: PlannedRow, protocol: str) -> str:
    """Gain over the base, paired over the seeds that both have, and over splits."""
    one, other = _by_seed(row, protocol), _by_seed(base, protocol)
    shared = sorted(one.keys() & other.keys())
    if not shared:
        return ""
    try:
        return str(paired_difference([one[seed] for seed in shared], [other[seed] for seed in shared]))
    except InputError:
        return "other splits"


def _by_seed(row: PlannedRow, protocol: str) -> dict[int, list[float]]:
    found: list[tuple[int, Entry | None]] = [
        (slot.run.seed, slot.found.entry) for slot in row.slots if slot.found.is_current
    ]
    return {seed: entry.scores[protocol] for seed, entry in found if entry and protocol in entry.scores}


def format_scores(means: Sequence[float]) -> str:
    """Mean of the seeds' means, with their standard deviation if there are several."""
    if not means:
        return ""
    return f"{mean(means):.2f}" + (f" ± {stdev(means):.2f}" if len(means) > 1 else "")


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([rows[0], "|-" * len(lines[0]) + "|", *rows[1:]])


def _notes(table: Table, rows: Iterable[PlannedRow]) -> list[str]:
    """What is said of rows that have been run: length, settings, remarks, findings."""
    lines = []
    for row in (row for row in rows if len(row.missing) < len(row.slots)):
        cell = row.cell
        facts = [cell.length, f"settings: {cell.source}", cell.remark, cell.finding and f"found: {cell.finding}"]
        lines.append(f"- {table.rows[cell.row].title}: {'; '.join(filter(None, facts))}")
    return ["", *lines] if lines else []
