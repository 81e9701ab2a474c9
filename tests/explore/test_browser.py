"""The page as a person uses it, in a real browser where there is one."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

import polinfer
from polinfer.cli import main
from polinfer.explore import answers
from polinfer.explore.report import assemble

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402
from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None,
    reason="no browser is installed here: apt-get install chromium chromium-driver to test the page",
)
SWAMPY = "map=..G/S../...&success_prob=0.8&horizon=12&reward_scale=3"


class Server(NamedTuple):
    process: subprocess.Popen[str]
    address: str
    folder: Path


def start_server(folder: Path, *arguments: str) -> Server:
    command = [sys.executable, "-m", "polinfer", "explore", *arguments, "--no-open", "--json"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=os.environ.copy())
    assert process.stdout is not None
    return Server(process, json.loads(process.stdout.readline())["address"], folder)


def stop_server(server: Server) -> None:
    server.process.kill()
    server.process.wait(timeout=10)
    assert server.process.stdout is not None
    server.process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = start_server(tmp_path_factory.mktemp("explored"), "gridworld/ablation")
    yield made
    stop_server(made)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = Options()
    options.binary_location = str(BROWSER)
    # Without motion: what turns while the worker computes would be drawn by the same processor.
    still = "--force-prefers-reduced-motion"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", still):
        options.add_argument(argument)
    # Nothing beside the page: no extensions, no looking for updates, no calls home.
    for name in ("extensions", "component-update", "background-networking", "sync", "default-apps"):
        options.add_argument(f"--disable-{name}")
    options.add_argument("--disable-features=Translate,MediaRouter,OptimizationHints")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    taken = tmp_path_factory.mktemp("taken")
    options.add_experimental_option("prefs", {"download.default_directory": str(taken)})
    made = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    made.taken = taken
    made.set_window_size(1280, 940)
    yield made
    made.quit()


class Page:
    """What a person sees and does."""

    def __init__(self, browser: Any, server: Server) -> None:
        self.browser, self.server = browser, server

    def open(self, state: str = "") -> None:
        self.browser.get("about:blank")
        self.browser.get(self.server.address + (f"#{state}" if state else ""))
        self.until(lambda: self.js("return document.querySelector('.picture') !== null"))

    def js(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def until(self, holds: Callable[[], Any], seconds: float = 40.0) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = holds()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"waited {seconds} s; the page says: {self.text('body')[:600]}")

    def text(self, selector: str) -> str:
        return str(self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def click(self, selector: str) -> None:
        def clicked() -> bool:
            try:
                self.browser.find_element(By.CSS_SELECTOR, selector).click()
            except StaleElementReferenceException:  # It was drawn anew just then.
                return False
            return True

        self.until(clicked)

    def answered(self) -> None:
        self.until(lambda: self.js("return document.querySelector('.stale') === null"))

    def solved(self) -> None:
        self.until(
            lambda: self.js(
                "return !document.querySelector('.stale')"
                " && document.getElementById('scale')?.disabled === false"
            )
        )

    def press_cell(self, x: int, y: int, *kinds: str) -> None:
        """Press a cell of the grid, counted from the upper left."""
        self.js(
            """const svg = document.querySelector("svg.grid"), box = svg.getBoundingClientRect();
            const [, , w, h] = svg.getAttribute("viewBox").split(" ").map(Number);
            const unit = Math.min(box.width / w, box.height / h);
            const clientX = box.left + box.width / 2 + (arguments[0] + 0.56 - w / 2) * unit;
            const clientY = box.top + box.height / 2 + (arguments[1] + 0.56 - h / 2) * unit;
            for (const kind of arguments[2])
              svg.dispatchEvent(new PointerEvent(kind, {clientX, clientY, bubbles: true, buttons: 1}));""",
            x,
            y,
            kinds or ("pointerdown", "pointerup"),
        )

    def probabilities(self) -> dict[str, float]:
        """Return what the panel says of the selected state, in percent."""
        rows = self.js(
            "return [...document.querySelectorAll('.action')].map((row) =>"
            " [row.querySelector('.name').textContent, row.querySelector('.bar').getAttribute('aria-label')])"
        )
        found = {}
        for name, label in rows:
            share = label.removeprefix(f"{name} ").split("%")[0]
            found[name] = float(share.strip("<>"))
        return found

    def take(self, button: str, name: str) -> Path:
        """Press a button of the tab *Take away*, and return the file that comes."""
        path = Path(self.browser.taken) / name
        path.unlink(missing_ok=True)
        self.click(f"#{button}")
        self.until(path.is_file)
        return path

    def slide(self, place: int) -> None:
        self.js(
            "const input = document.getElementById('scale'); input.value = arguments[0];"
            "input.dispatchEvent(new Event('input')); input.dispatchEvent(new Event('change'))",
            place,
        )
        time.sleep(0.15)


@contextmanager
def sized(browser: Any, width: int, height: int) -> Iterator[None]:
    """Let the browser have a screen of some size."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    return Page(browser, server)


def test_it_opens_and_shows_the_exact_posterior(page: Page) -> None:
    page.open()
    page.solved()
    assert "token" not in page.browser.current_url
    page.press_cell(0, 1)
    assert page.until(page.probabilities) == pytest.approx(
        {"down": 80, "right": 18, "up": 1, "left": 1}, abs=1
    )
    assert "trust" not in page.text("#side")
    page.click("#tab-judge")
    page.until(lambda: "every policy was enumerated" in page.text("#side"))
    entries = [entry for entry in page.browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert entries == []
    for width, height in ((1280, 800), (820, 1180)):
        with sized(page.browser, width, height):
            inside = page.js(
                "const all = document.documentElement;"
                "return [all.scrollHeight <= innerHeight, all.scrollWidth <= innerWidth]"
            )
            assert inside == [True, True]


def test_a_condition_is_the_exact_conditional_posterior(page: Page) -> None:
    page.open()
    page.solved()
    page.press_cell(0, 1)
    page.until(page.probabilities)
    rows = list(page.probabilities())
    page.browser.find_elements(By.CSS_SELECTOR, ".give")[rows.index("right")].click()
    page.until(lambda: page.js("return document.querySelector('.card.given')?.dataset.ready") == "yes")
    posterior = polinfer.infer(polinfer.make("gridworld/ablation"), "exact", samples=2)
    table = posterior.view
    assert isinstance(table, polinfer.TabularMDP)
    start = int(np.argmax(table.initial))
    prior = table.prior.copy()
    prior[start] = [1, 0, 0, 0]
    wanted = polinfer.infer(table.with_problem(prior=prior), "exact", samples=2)
    page.press_cell(1, 1)
    beside = next(s for s in range(table.num_states) if table.state_names[s] == "(2,2)")
    expected = dict(zip(table.action_names, 100 * wanted.action_probs(beside), strict=True))
    shown = page.until(page.probabilities)
    assert shown == pytest.approx({name: float(share) for name, share in expected.items()}, abs=1)
    assert "18%" in page.text(".card.given")


def test_the_slider_goes_from_uniform_to_the_optimum_and_the_address_keeps_all(page: Page) -> None:
    page.open()
    page.solved()
    page.press_cell(0, 1)
    page.slide(0)
    assert max(page.until(page.probabilities).values()) < 28
    page.slide(1000)
    places = page.js(
        "const before = history.length, input = document.getElementById('scale');"
        "for (const place of [990, 995, 1000]) { input.value = place;"
        " for (const kind of ['input', 'change']) input.dispatchEvent(new Event(kind)); }"
        "return history.length - before"
    )
    assert places <= 1  # Arrow keys would else leave a place to come back to each.
    assert page.probabilities()["down"] >= 99
    before = page.browser.current_url
    page.browser.refresh()
    page.solved()
    page.until(page.probabilities)
    assert page.browser.current_url == before
    assert page.probabilities()["down"] >= 99
    page.browser.back()
    page.until(lambda: page.probabilities().get("down", 100) < 99)


def test_a_swamp_is_drawn_and_the_policy_turns_away(page: Page) -> None:
    page.open(SWAMPY)
    page.solved()
    page.press_cell(0, 1)
    before = page.until(page.probabilities)
    body = page.browser.find_element(By.TAG_NAME, "body")
    body.send_keys("5")
    page.press_cell(0, 2)  # A wall takes a number away from the states behind it.
    body.send_keys("3")
    for x in (0, 1):
        page.press_cell(x, 0)
    assert page.js("return document.querySelector('.picture').classList.contains('stale')")
    page.solved()
    assert page.text("#side h2").startswith("(1,2)")
    body.send_keys("0")
    page.press_cell(0, 1)
    after = page.until(page.probabilities)
    assert after["up"] < before["up"] - 5
    assert "map=WWG" in page.browser.current_url
    body.send_keys(Keys.CONTROL, "z")
    page.until(lambda: "map=.WG" in page.browser.current_url or "map=W.G" in page.browser.current_url)
    page.click("#redo")
    page.until(lambda: "map=WWG" in page.browser.current_url)
    page.browser.back()
    page.until(lambda: "map=WWG" not in page.browser.current_url)


def test_a_stroke_has_no_gaps_and_the_start_stays(page: Page) -> None:
    page.open("map=....G/S..../.....")  # Drawing waits for no answer.
    before = page.browser.current_url
    page.js("document.getElementById('tool-wall').click()")
    assert page.js("return document.getElementById('tool-wall').getAttribute('aria-checked')") == "true"
    page.press_cell(0, 1)
    assert "needs its start" in page.text(".caption")
    page.press_cell(0, 0, "pointerdown")
    page.press_cell(3, 0, "pointermove", "pointerup")
    assert "map=%23%23%23%23G" in page.browser.current_url
    page.browser.back()
    page.until(lambda: page.browser.current_url == before)
    page.js(
        "const field = document.getElementById('field-success_prob'); field.value = '7';"
        "field.dispatchEvent(new Event('change'))"
    )
    assert page.js("return document.getElementById('field-success_prob').value") == "1"
    page.js("document.getElementById('tool-look').click()")


def test_an_address_with_nonsense_is_read_without_it(page: Page) -> None:
    nonsense = "&tab=constructor&view=x&scale=-1&alpha=0&select=99&shown=nobody&against=x&given=9.9_a.b"
    page.open(SWAMPY + nonsense)
    page.answered()
    assert page.text(".caption p").startswith("posterior")
    assert "Ask about a state" in page.text("#side")
    page.open("map=..G/S.")
    page.until(lambda: "Line 2 of the map has 2 cells" in page.text(".banner"))
    assert "not solved" in page.text(".caption")


def test_episodes_are_played_and_repeatable(page: Page) -> None:
    page.open("tab=watch")
    page.solved()
    played = []
    for _ in range(2):
        page.browser.find_element(By.XPATH, "//button[text()='Reset']").click()
        page.click("#many")
        played.append(page.text("#side"))
    assert "100 episodes: mean" in played[0]
    assert played[0] == played[1]
    page.click("#play")
    page.until(lambda: "Episode 101" in page.text(".log") or "Episode 102" in page.text(".log"))
    page.click("#play")


def test_neighbours_are_compared_on_the_same_picture(page: Page) -> None:
    page.open("problem=continuation&tab=compare")
    page.solved()
    page.until(lambda: "control as inference" in page.text("#side"))
    words = page.text("#side")
    assert "0.73" in words
    assert "0.55" in words
    page.click("#side input[type=radio]:not(:checked)")
    page.until(lambda: "soft" in page.text(".caption"))
    page.click("#tab-watch")
    page.click("#many")
    page.until(lambda: "average, over time, of a policy that looks at the time" in page.text("#side"))


@pytest.mark.parametrize("given", [{}, {0: 0}], ids=["posterior", "conditional"])
def test_a_saved_run_is_loaded_by_the_library(page: Page, given: dict[int, int]) -> None:
    chosen = "_".join(f"{state}.{action}" for state, action in given.items())
    page.open(f"tab=take&given={chosen}")
    page.solved()
    box = page.browser.find_element(By.ID, "folder")
    box.clear()
    box.send_keys(f"taken{len(given)}", Keys.ARROW_LEFT)
    page.js("dispatchEvent(new PopStateEvent('popstate'))")  # Everything is drawn anew.
    assert page.js("return document.activeElement.selectionStart") == len("taken")
    page.click("#save")
    page.until(lambda: f"Saved as taken{len(given)}" in page.text("#side"))
    loaded = polinfer.load(page.server.folder / f"taken{len(given)}")
    wanted = polinfer.infer(polinfer.make("gridworld/ablation"), "exact", samples=2)
    if given:
        wanted = wanted.given([(wanted.states[state], action) for state, action in given.items()])
    assert loaded.table_probs() == pytest.approx(wanted.table_probs(), abs=1e-6)


@pytest.mark.parametrize("shown", ["scale=2.5&given=0.0&select=0", "scale=2.5&shown=soft&alpha=0.37"])
def test_the_program_computes_what_is_taken_away(page: Page, shown: str) -> None:
    page.open(f"tab=take&{shown}")
    page.solved()
    page.until(lambda: page.text(".caption p") in ("posterior, given", "soft, α = 0.37"))
    page.until(lambda: "busy" not in page.js("return document.querySelector('.status').className"))
    with np.load(page.take("npz", "policy.npz")) as archive:  # NumPy refuses pickles by default.
        taken = {name: archive[name] for name in archive.files}
    made: dict[str, Any] = {}
    exec(page.js("return document.getElementById('snippet').textContent"), made)
    assert taken["policy"] == pytest.approx(made["policy"], abs=2e-5)
    assert tuple(taken["states"]) == made["table"].state_names
    assert tuple(taken["actions"]) == made["table"].action_names
    assert taken["reward_scale"] == 2.5
    picture = page.take("svg", "picture.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
    assert page.take("png", "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_keyboard_reaches_cells_and_tabs(page: Page) -> None:
    page.open()
    page.solved()
    page.js("document.querySelector('svg.grid').focus()")
    active = page.browser.switch_to.active_element
    active.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    page.until(lambda: page.text("#side h2").startswith("(1,1)"))
    page.js("document.getElementById('tab-ask').focus()")
    page.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: "Watch it act" in page.text("#side"))
    unnamed = page.js(
        "return [...document.querySelectorAll('button, input, select, [tabindex=\"0\"]')].filter((one) =>"
        " one.offsetParent && !one.innerText && !one.getAttribute('aria-label') && !one.labels?.length"
        " && !one.title).length"
    )
    assert unnamed == 0


def test_the_keyboard_reaches_the_places_of_a_map(page: Page) -> None:
    page.open("problem=tireworld/1")
    page.until(lambda: page.js("return document.querySelector('.roads .place') !== null"))
    page.answered()
    page.js("document.querySelector('svg.roads').focus()")
    active = page.browser.switch_to.active_element
    active.send_keys(Keys.ARROW_RIGHT)
    assert page.js("return getComputedStyle(document.querySelector('.cursor')).visibility") == "visible"
    active.send_keys(Keys.ENTER)
    page.until(lambda: page.text("#side h2").startswith("la1a2"))
    active.send_keys(Keys.ENTER)  # The other state of this place.
    page.until(lambda: page.text("#side h2") != "la1a2" and page.text("#side h2").startswith("la1a2"))


def test_names_of_a_table_are_shown_as_text(page: Page, tmp_path: Path) -> None:
    table = {
        "state_names": ["<img src=x onerror=document.title='broken'>", "off"],
        "action_names": ["<b>run</b>", "stop"],
        "initial": 0,
        "absorbing": ["off"],
        "horizon": 3,
        "outcomes": [[0, 0, 0, 1.0, 1.0], [0, 1, 1, 1.0, 0.0]],
    }
    (tmp_path / "bad.json").write_text(json.dumps(table), encoding="utf-8")
    page.open()
    page.solved()
    page.js("document.querySelector('input[type=file]').hidden = false")
    page.browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(tmp_path / "bad.json"))
    page.until(lambda: "opened=" in page.browser.current_url)
    page.solved()
    page.click("#view-list")
    page.until(lambda: "<img src=x" in page.text(".list"))
    assert page.js("return [document.title, document.querySelectorAll('img, .list b').length]") == [
        "polinfer explore",
        0,
    ]


def test_the_page_says_that_the_server_is_gone_and_another_goes_on(browser: Any, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    page = Page(browser, start_server(tmp_path, "--port", port))
    state = "problem=gridworld%2Fablation&tab=watch&select=3&seed=7"
    try:
        page.open(state)
        page.until(lambda: "busy" in page.js("return document.querySelector('.status').className"))
    finally:
        stop_server(page.server)
    page.until(lambda: "The server has stopped" in page.text(".banner"))
    assert browser.current_url.endswith(state)
    page.server = start_server(tmp_path, "continuation", "--port", port)
    try:
        page.open(state)
        page.answered()
        assert browser.current_url.endswith(state)
        assert page.js("return document.getElementById('seed').value") == "7"
        assert page.text(".title").startswith("6 states")
    finally:
        stop_server(page.server)


def test_a_report_is_slid_and_clicked_without_a_server(browser: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    assert main(["plan", "gridworld/ablation", "--method", "exact", "--out", folder]) == 0
    assert main(["report", folder]) == 0
    page = Page(browser, Server(None, (tmp_path / "run" / "report.html").as_uri(), tmp_path))  # type: ignore[arg-type]
    browser.get("about:blank")
    browser.get_log("browser")  # what another test left
    page.open()
    page.solved()
    page.press_cell(0, 1)
    assert page.until(page.probabilities)["down"] == pytest.approx(80, abs=1)
    kept = page.js(
        """window.button = document.querySelector(".give");
        window.button.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, buttons: 1}));
        dispatchEvent(new PopStateEvent("popstate"));  // A record that arrives before the button is released.
        return window.button.isConnected"""
    )
    assert kept
    page.js("window.button.dispatchEvent(new PointerEvent('pointerup', {bubbles: true}))")
    page.until(lambda: not page.js("return window.button.isConnected"))
    page.slide(1000)
    page.until(lambda: page.probabilities()["down"] >= 99)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def large_page(*without: str) -> str:
    """Return a page of 30 by 30 cells without a server, from policies that nobody needs to solve for."""
    rng = np.random.default_rng(3)
    letters = rng.choice(list(".....RW#"), size=(30, 30))
    letters[29, 0], letters[0, 29] = "S", "G"
    problem = polinfer.make("gridworld", map="\n".join("".join(row) for row in letters), horizon=40)
    table = polinfer.tabulate(problem)
    points = []
    for rank, scale in enumerate(answers.SCALES):
        policy = rng.dirichlet(np.full(4, 1 / scale), table.num_states) + 1e-9
        found = answers.executed(table, "posterior", policy / policy.sum(axis=1, keepdims=True))
        found = msgspec.structs.replace(found, returned=float(rank))  # half-way is near to uniform
        points.append(answers.PointRecord(scale, found, found, 0.1, 0.0, 0.1, scale, 0.1, 1 / scale))
    drawn = answers.whole(rng.integers(0, 4, (200, table.num_states)))
    errors = answers.floats(np.full((table.num_states, 4), 0.05))
    numbers = (1.0, 0.0, 0.1, 1.0, 0.1, 5.0, 200)
    records = {
        "problem": answers.problem_info(problem, "large"),
        "draft": answers.AnswerRecord(points[4].executed, errors, "tempered", "", False, *numbers, drawn),
        "path": answers.PathRecord(points, 0.0, 1.0, 1.0, False),
    }
    records["given"] = msgspec.structs.replace(records["draft"], draft=True)
    start = {"problem": {"type": "opened", "digest": "report"}, "title": "large", "max_side": 30}
    kept = {name: record for name, record in records.items() if name not in without}
    return assemble("large", {"start": start | {"presets": {}, "names": []}, "records": kept})


def test_a_large_map_is_slid_and_watched_without_delay(browser: Any, tmp_path: Path) -> None:
    """In processor time of the page's thread, which other work on the machine does not lengthen."""
    (tmp_path / "large.html").write_text(large_page(), encoding="utf-8")
    page = Page(browser, Server(None, (tmp_path / "large.html").as_uri(), tmp_path))  # type: ignore[arg-type]
    page.open()
    page.solved()
    assert page.js("return document.querySelector('svg.grid').viewBox.baseVal.width") > 30
    outside = page.js(
        "const box = document.querySelector('.slider').getBoundingClientRect();"
        "return [...document.querySelectorAll('.tick')].map((tick) => tick.getBoundingClientRect())"
        ".filter((tick) => tick.left < box.left || tick.right > box.right).length"
    )
    assert outside == 0
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})

    def milliseconds(every_frame: str, frames: int = 60) -> float:
        def spent() -> float:
            found = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
            return float(next(metric["value"] for metric in found if metric["name"] == "TaskDuration"))

        before = spent()
        browser.execute_async_script(
            f"const done = arguments[0]; let k = 0; const tick = () => {{ {every_frame}"
            f" if (++k < {frames}) requestAnimationFrame(tick); else done(); }}; tick();"
        )
        return 1000 * (spent() - before) / frames

    sliding = milliseconds(
        "const input = document.getElementById('scale'); input.value = (k * 37) % 1000;"
        "input.dispatchEvent(new Event('input'));"
    )
    page.js("document.getElementById('scale').dispatchEvent(new Event('change'))")
    page.js("document.getElementById('tab-watch').click()")
    page.js(
        "const speed = document.getElementById('speed'); speed.value = 60;"
        "speed.dispatchEvent(new Event('input'))"
    )
    page.js("document.getElementById('play').click()")
    watching = milliseconds("")
    page.js("document.getElementById('play').click()")
    browser.execute_cdp_cmd("Performance.disable", {})
    assert "Episode" in page.text(".log")
    assert sliding < 50
    assert watching < 1000 / 60
    page.js("location.hash = '#tab=ask&given=0.0'")
    page.until(lambda: page.text(".caption p") == "posterior, given (first answer)")


def test_a_map_is_seen_before_it_is_solved(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "unsolved.html").write_text(large_page("draft"), encoding="utf-8")
    page = Page(browser, Server(None, (tmp_path / "unsolved.html").as_uri(), tmp_path))  # type: ignore[arg-type]
    page.open()
    page.until(lambda: page.js("return document.querySelector('svg.grid')?.viewBox.baseVal.width > 30"))
    assert page.text(".caption p") == "solving …"
