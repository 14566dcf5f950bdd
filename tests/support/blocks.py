"""The code blocks of a Markdown page, run as a reader would: in order, in one folder, with training cut short."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from progcl.cli import main as cli
from progcl.cli.options import config_overrides
from progcl.config.load import PRESETS, load_config
from progcl.config.schema import Config
from progcl.data.datasets import BUILTIN, PUBLISHED
from progcl.data.splits import make_splits
from progcl.evaluation.probe import PROTOCOLS, probe_gca
from progcl.report.maps import make_map
from progcl.run import fit

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
FENCE = re.compile(r"^```(\S+) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
EPOCHS, START, SPLITS, STEPS = 2, 1, 2, 2
MAP_NODES = 1000
SMALL_BENCH = ["--nodes=100", "--width=16", "--sizes=[]", "--repeats=1"]
NOT_RUN = {
    "pip": "installs what is already installed here",
    "make": "sets up an environment; tests/docs/test_readme.py looks for its targets",
    "torchrun": "starts processes, as tests/test_distributed.py does; its options of progcl are checked",
}
DIRECTIVES = {
    "{toctree}": "the documentation's own build complains of a page that is missing",
    "{eval-rst}": "likewise of a function",
}


@dataclass(frozen=True)
class CodeBlock:
    """What a fence of a page holds, and the line it starts in."""

    language: str
    argument: str
    text: str
    line: int

    @property
    def commands(self) -> list[str]:
        """What is typed after a `$`, without the remark."""
        return [line[2:].split("  #")[0].strip() for line in self.text.splitlines() if line.startswith("$ ")]


def blocks_of(page: Path) -> list[CodeBlock]:
    """Every block of a page; a fence that is none is an error."""
    text = page.read_text()
    found = [
        CodeBlock(match[1], match[2], match[3], text[: match.start()].count("\n") + 1) for match in FENCE.finditer(text)
    ]
    assert 2 * len(found) == sum("```" in line for line in text.splitlines()), f"{page.name}: a fence without language?"
    return found


def commands_of(page: Path) -> list[str]:
    """Every command of a page's blocks."""
    return [command for block in blocks_of(page) for command in block.commands]


def cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few epochs and splits instead of those that are asked for, on the command line and in Python."""

    def short_fit(config: Config, **options: Any) -> Any:
        train = replace(config.train, epochs=min(EPOCHS, config.train.epochs))
        batch = config.batch
        if batch.size is not None and batch.variant == "snapshot":
            batch = replace(batch, steps=min(STEPS, batch.steps or STEPS))
        miner: Any = config.miner
        if hasattr(miner, "start_epoch"):
            miner = replace(miner, start_epoch=min(START, miner.start_epoch))
        return fit(replace(config, train=train, batch=batch, miner=miner), **options)

    def few_splits(data: Any, number: int = SPLITS, *others: Any, **options: Any) -> Any:
        return make_splits(data, min(SPLITS, number), *others, **options)

    def small_map(embeddings: Any, classes: int | None, seed: int, max_nodes: int, *others: Any, **options: Any) -> Any:
        return make_map(embeddings, classes, seed, min(MAP_NODES, max_nodes), *others, **options)

    for place in ("progcl.run.fit", "progcl.experiments.compare.fit", "progcl.embed.fit"):
        monkeypatch.setattr(place, short_fit)
    monkeypatch.setattr("progcl.evaluation.probe.make_splits", few_splits)
    monkeypatch.setitem(PROTOCOLS, "gca", partial(probe_gca, steps=100))
    monkeypatch.setattr("progcl.report.maps.TSNE_ITERATIONS", 125)
    monkeypatch.setattr("progcl.report.page.make_map", small_map)


class Reader:
    """Runs one block after the other in the present folder; Python's names stay."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **names: Any) -> None:
        cut_short(monkeypatch)
        self.monkeypatch = monkeypatch
        self.names: dict[str, Any] = {"__name__": "page", **names}
        self.kinds: dict[str, Callable[[CodeBlock], None]] = {
            "python": self.python,
            "diff": self.diff,
            "console": self.console,
            "text": self.text,
            "yaml": self.yaml,
            "{literalinclude}": self.literalinclude,
            **dict.fromkeys(DIRECTIVES, lambda block: None),
        }

    def read(self, page: Path) -> None:
        """Run everything that a page shows."""
        for block in blocks_of(page):
            assert block.language in self.kinds, f"{page.name}:{block.line}: no way to run `{block.language}`"
            self.kinds[block.language](block)

    def python(self, block: CodeBlock) -> None:
        code = "\n" * block.line + block.text  # errors name the line of the page
        exec(compile(code, "page", "exec"), self.names)

    def diff(self, block: CodeBlock) -> None:
        """What is there after the change is Python."""
        lines = [line[1:] for line in block.text.splitlines() if not line.startswith("-")]
        self.python(replace(block, text="\n".join(lines)))

    def console(self, block: CodeBlock) -> None:
        assert block.commands, f"line {block.line}: output alone is `text`"
        for command in block.commands:
            self.command(command)

    def text(self, block: CodeBlock) -> None:
        assert not block.commands, f"line {block.line}: commands are `console`"

    def yaml(self, block: CodeBlock) -> None:
        Path("page.yaml").write_text(block.text)
        load_config("page.yaml")

    def literalinclude(self, block: CodeBlock) -> None:
        """Part of an example, all of which tests/docs/test_examples.py runs."""
        example = (ROOT / "docs" / block.argument).resolve()
        assert example in (ROOT / "examples").glob("*.py"), block.argument

    def command(self, command: str) -> None:
        program, *argv = shlex.split(command)
        if program == "progcl":
            cli.main([*argv, *(SMALL_BENCH if argv[0] == "bench" else [])])
        else:
            assert program in NOT_RUN, command
        if program == "torchrun":
            check_options(argv[argv.index("progcl") + 1 :], self.monkeypatch)


def check_options(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse a command of progcl without running it; an unknown option, preset or value is an error."""

    def check(options: dict[str, Any]) -> None:
        if "source" in options and "file" not in options:
            source = options["source"]
            assert source.endswith(".yaml") or source in {*PRESETS, *BUILTIN, *PUBLISHED}, source
            load_config("digits" if source.endswith(".yaml") else source, config_overrides(options))

    with monkeypatch.context() as patch:
        for name, command in cli.COMMANDS.items():
            patch.setitem(cli.COMMANDS, name, command._replace(run=check))
        cli.main(argv)
