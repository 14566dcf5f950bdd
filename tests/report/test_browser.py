"""The report in a real browser: Debian's Chromium, driven by Playwright."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from progcl.report.mixture import save_mixture
from progcl.report.page import write_report
from support.stories import HOSTILE, make_mixture, make_story

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser(seconds=1),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; `apt-get install chromium` brings one"),
]
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PIXELS = "document.getElementById('map').toDataURL()"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []  # as root Chromium has no sandbox
        opened = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(make_story(), path)
    return path


class Visit:
    """A tab, with the console messages, errors and requests of its page."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.page = browser.new_page(**{"viewport": WIDE, **options})
        self.page.set_default_timeout(10_000)
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path) -> None:
        self.messages.clear()
        self.requests.clear()
        self.page.goto(path.as_uri())
        self.settle()

    def check(self) -> None:
        """No errors, no requests, no horizontal scrolling once the page has reacted to its size."""
        self.settle()
        assert self.messages == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:"))] == []
        assert self.page.evaluate(OVERFLOW) <= 0

    def settle(self) -> None:
        """Wait until requested frames are drawn."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def pixels(self) -> str:
        self.settle()
        return str(self.page.evaluate(PIXELS))

    def find(self, text: str) -> None:
        self.page.fill("#search", text)
        self.page.press("#search", "Enter")
        self.settle()


@pytest.fixture(scope="module")
def tab(browser: Any) -> Visit:
    """One tab for all tests, because opening one takes longer than most of them."""
    return Visit(browser)


@pytest.fixture
def visit(tab: Visit, report: Path) -> Iterator[Visit]:
    tab.page.mouse.move(0, 0)
    tab.open(report)
    yield tab
    tab.check()


def screen_position(visit: Visit, node: int) -> tuple[float, float]:
    """Screen coordinates of a node, computed from the page's data and not by its script."""
    positions: list[list[int]] = visit.page.evaluate(
        """() => {
            const text = atob(JSON.parse(document.getElementById("data").textContent).positions);
            const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
            const numbers = Array.from(new Uint16Array(bytes.buffer));
            return [numbers.filter((_, index) => index % 2 == 0), numbers.filter((_, index) => index % 2)];
        }"""
    )
    box = visit.page.locator("#map").bounding_box()
    middles = [(min(side) + max(side)) / 2 for side in positions]
    room = (box["width"] - 2 - 56, box["height"] - 2 - 56)
    scale = min(space / (max(side) - min(side)) for space, side in zip(room, positions, strict=True))
    x = box["x"] + box["width"] / 2 + scale * (positions[0][node] - middles[0])
    return x, box["y"] + box["height"] / 2 - scale * (positions[1][node] - middles[1])


def test_hovering_shows_the_node(visit: Visit) -> None:
    visit.page.locator("#map").scroll_into_view_if_needed()
    assert visit.page.is_hidden("#tip")
    for node in (0, 7, 59):
        visit.page.mouse.move(*screen_position(visit, node))
        assert visit.text("#tip").splitlines()[:2] == [f"node-{node:03d}", f"label: class {node % 3}"]
    visit.page.mouse.move(1, 1)
    assert visit.page.is_hidden("#tip")


def test_searching_a_node_marks_it_and_lists_its_neighbors(visit: Visit) -> None:
    before = visit.pixels()
    visit.find("node-007")
    assert visit.pixels() != before
    assert visit.text("#selected h3") == "node-007"
    assert visit.page.locator("#selected li").count() == 8
    neighbor = visit.page.inner_text("#selected li:first-child span")
    visit.page.click("#selected li:first-child button")
    assert visit.text("#selected h3") == neighbor


def test_the_search_box_by_keyboard(visit: Visit) -> None:
    visit.page.focus("#search")
    visit.page.keyboard.type("E-01")
    assert visit.page.locator("#suggestions li").first.inner_text().startswith("node-010")
    assert visit.page.get_attribute("#search", "aria-expanded") == "true"
    visit.page.keyboard.press("ArrowDown")
    assert visit.page.get_attribute("#search", "aria-activedescendant") == "suggestion-1"
    visit.page.keyboard.press("Enter")
    assert visit.text("#selected h3") == "node-011"
    assert visit.page.is_hidden("#suggestions")
    visit.page.fill("#search", "nobody")
    assert "No id contains" in visit.text("#suggestions")
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.press("Escape")
    assert visit.text("#selected h3") == "node-011"


def test_an_exact_id_comes_first(tab: Visit, tmp_path: Path) -> None:
    write_report(make_story(3, ids=["100", "a10", "10"]), tmp_path / "report.html")
    tab.open(tmp_path / "report.html")
    tab.page.fill("#search", "10")
    assert tab.page.locator("#suggestions .id").all_inner_texts() == ["10", "100", "a10"]


def test_colors_are_toggled(visit: Visit) -> None:
    assert visit.page.locator("#legend li").count() == 3
    assert re.findall(r"class \d\s+20", visit.text("#legend"))
    before = visit.pixels()
    visit.page.click("text=cluster >> nth=0")
    assert visit.text("#legend-title") == "Cluster"
    assert visit.text("#legend li:first-child span") == "1"
    visit.page.click("#colors label:first-of-type")
    assert visit.text("#legend-title") == "Label"
    assert visit.pixels() == before


def test_the_legend_shows_one_class_alone(visit: Visit) -> None:
    before = visit.pixels()
    visit.page.click("#legend li:nth-child(2) button")
    assert visit.page.get_attribute("#legend li:nth-child(2) button", "aria-pressed") == "true"
    assert visit.pixels() != before
    visit.page.click("#legend li:nth-child(2) button")
    assert visit.pixels() == before


def test_zooming_and_moving(visit: Visit) -> None:
    before = visit.pixels()
    visit.page.click("#zoom-in")
    near = visit.pixels()
    assert near != before
    x, y = screen_position(visit, 0)
    visit.page.mouse.move(x, y)
    visit.page.mouse.down()
    visit.page.mouse.move(x + 60, y + 30, steps=3)
    visit.page.mouse.up()
    assert visit.pixels() != near
    assert visit.page.locator("#selected h3").count() == 0  # moving is not choosing
    visit.page.click("#zoom-reset")
    assert visit.pixels() == before


def test_the_wheel_scrolls_the_page_until_the_map_is_clicked(visit: Visit) -> None:
    visit.page.locator("#map").scroll_into_view_if_needed()
    before = visit.pixels()
    visit.page.mouse.move(*screen_position(visit, 0))
    visit.page.mouse.wheel(0, -20)
    assert visit.pixels() == before
    visit.page.focus("#map")
    visit.page.mouse.wheel(0, -300)
    visit.page.wait_for_function(f"(before) => {PIXELS} !== before", arg=before)


def test_a_neighbor_in_the_table_leads_to_the_map(visit: Visit) -> None:
    name = visit.text("button.chip >> nth=0").split()[0]
    visit.page.click("button.chip >> nth=0")
    assert visit.text("#selected h3") == name


def test_a_phone_does_not_scroll_horizontally_and_taps(browser: Any, report: Path) -> None:
    phone = Visit(browser, viewport=NARROW, has_touch=True, is_mobile=True)
    phone.open(report)
    phone.check()
    light = phone.pixels()
    phone.page.emulate_media(color_scheme="dark")
    assert phone.pixels() != light
    phone.page.locator("#map").scroll_into_view_if_needed()
    phone.page.touchscreen.tap(*screen_position(phone, 5))
    assert phone.text("#selected h3") == "node-005"
    assert phone.text("#tip").startswith("node-005")
    phone.check()


@pytest.mark.parametrize("nodes", [1, 2, 60])
def test_hostile_texts_do_nothing(nodes: int, tab: Visit, tmp_path: Path) -> None:
    ids = [f"{index}{HOSTILE}" for index in range(nodes)]
    texts: dict[str, Any] = {"title": HOSTILE, "facts": {HOSTILE: HOSTILE}, "labels": [HOSTILE] * nodes}
    write_report(make_story(nodes, ids=ids, warnings=[HOSTILE], **texts), tmp_path / "report.html")
    tab.open(tmp_path / "report.html")
    tab.find(ids[-1])
    assert tab.page.text_content("#selected h3") == ids[-1]
    tab.page.hover("#map")
    tab.check()
    tab.page.set_viewport_size(NARROW)
    tab.check()
    tab.page.set_viewport_size(WIDE)
    assert tab.page.evaluate("window.hacked") is None


def test_a_chart_in_a_file_of_its_own_has_both_themes(browser: Any, tmp_path: Path) -> None:
    save_mixture(make_mixture(), tmp_path / "mixture.svg")
    visit = Visit(browser)
    visit.open(tmp_path / "mixture.svg")
    fill = "(selector) => getComputedStyle(document.querySelector(selector)).fill"
    colors = {}
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        colors[scheme] = [visit.page.evaluate(fill, selector) for selector in (".background", ".axis-label", ".area")]
    assert colors["light"] == ["rgb(255, 255, 255)", "rgb(27, 35, 48)", "rgb(59, 110, 165)"]
    assert colors["dark"] == ["rgb(22, 28, 36)", "rgb(230, 234, 240)", "rgb(110, 163, 220)"]
    assert visit.messages == []


def test_the_policy_blocks_added_scripts(tab: Visit, report: Path, tmp_path: Path) -> None:
    changed = report.read_text("utf-8").replace("</body>", "<script>window.hacked = 1</script></body>")
    (tmp_path / "report.html").write_text(changed, "utf-8")
    tab.open(tmp_path / "report.html")
    assert tab.page.evaluate("window.hacked") is None
    assert "Content Security Policy" in tab.messages[0]
