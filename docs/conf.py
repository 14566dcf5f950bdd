"""Sphinx: `make docs` builds the pages beside this file into docs/_build/html."""

import re
from pathlib import Path

from sphinx.application import Sphinx

from progcl import __version__

ROOT = Path(__file__).parents[1]

project = "progcl"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"progcl {version}"
html_static_path = ["static"]
html_css_files = ["tables.css"]

default_role = "code"  # `x` in a docstring is code, as it is in Markdown
autodoc_member_order = "bysource"
napoleon_use_ivar = True
maximum_signature_line_length = 110
python_use_unqualified_type_names = True
# Other packages have pages of their own; type variables have none.
nitpick_ignore_regex = [
    ("py:.*", r"(?!progcl\.).*"),
    ("py:class", r"progcl\.(\w+\.)+(Similarities|Criterion|OptionsT|BatchT|LoaderT|ViewT|Value|Feature)"),
]


ROOT_PAGES = {"index": "README.md", "contributing": "CONTRIBUTING.md"}


def include_root_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Begin a page with its file in the repository's root, where links start elsewhere."""
    if page in ROOT_PAGES:
        text = re.sub(r"\]\((?!http|#)", "](../", (ROOT / ROOT_PAGES[page]).read_text())
        source[0] = text.replace("](../docs/", "](") + source[0]
    for name, file in ROOT_PAGES.items():
        source[0] = source[0].replace(f"](../{file}", f"]({name}.md")


def link_code(app: Sphinx, page: str, source: list[str]) -> None:
    """In the table of equations, let names of functions lead to the API reference."""
    if page == "equations":
        source[0] = re.sub(r"`(?!test_)(\w+(\.\w+)+)`", r"{py:obj}`\1 <progcl.\1>`", source[0])


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", include_root_page)
    app.connect("source-read", link_code)
