"""The page as a person uses it, in a real browser where there is one."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import polinfer

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
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
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
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
        self.browser.find_element(By.CSS_SELECTOR, selector).click()

    def solved(self) -> None:
        self.until(
            lambda: self.js(
                "return !document.querySelector('.stale')"
                " && document.getElementById('scale')?.disabled === false"
            )
        )

    def press_cell(self, x: int, y: int) -> None:
        """Press a cell of the grid, counted from the upper left."""
        self.js(
            """const svg = document.querySelector("svg.grid"), box = svg.getBoundingClientRect();
            const [, , w, h] = svg.getAttribute("viewBox").split(" ").map(Number);
            const unit = Math.min(box.width / w, box.height / h);
            const clientX = box.left + box.width / 2 + (arguments[0] + 0.56 - w / 2) * unit;
            const clientY = box.top + box.height / 2 + (arguments[1] + 0.56 - h / 2) * unit;
            for (const kind of ["pointerdown", "pointerup"])
              svg.dispatchEvent(new PointerEvent(kind, {clientX, clientY, bubbles: true, buttons: 1}));""",
            x,
            y,
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

    def slide(self, place: int) -> None:
        self.js(
            "const input = document.getElementById('scale'); input.value = arguments[0];"
            "input.dispatchEvent(new Event('input')); input.dispatchEvent(new Event('change'))",
            place,
        )
        time.sleep(0.15)


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
    page.browser.find_element(By.TAG_NAME, "body").send_keys("3")
    for x in (0, 1):
        page.press_cell(x, 0)
    assert page.js("return document.querySelector('.picture').classList.contains('stale')")
    page.solved()
    page.browser.find_element(By.TAG_NAME, "body").send_keys("0")
    page.press_cell(0, 1)
    after = page.until(page.probabilities)
    assert after["up"] < before["up"] - 5
    assert "map=WWG" in page.browser.current_url
    page.browser.find_element(By.TAG_NAME, "body").send_keys(Keys.CONTROL, "z")
    page.until(lambda: "map=.WG" in page.browser.current_url or "map=W.G" in page.browser.current_url)
    page.click("#redo")
    page.until(lambda: "map=WWG" in page.browser.current_url)


def test_episodes_are_played_and_repeatable(page: Page) -> None:
    page.open("tab=watch")
    page.solved()
    played = []
    for _ in range(2):
        page.browser.find_element(By.XPATH, "//button[text()='Reset']").click()
        page.browser.find_element(By.XPATH, "//button[text()='+100 episodes']").click()
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


def test_a_saved_run_is_loaded_by_the_library(page: Page) -> None:
    page.open("tab=take")
    page.solved()
    assert 'polinfer.make("gridworld/ablation")' in page.text("#snippet")
    box = page.browser.find_element(By.ID, "folder")
    box.clear()
    box.send_keys("taken")
    page.click("#save")
    page.until(lambda: "Saved as taken" in page.text("#side"))
    loaded = polinfer.load(page.server.folder / "taken")
    start = loaded.mdp.starts().state[0]
    assert loaded.action_probs(start)[2] == pytest.approx(0.798, abs=0.001)


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


def test_the_page_says_that_the_server_is_gone(browser: Any, tmp_path: Path) -> None:
    server = start_server(tmp_path, "gridworld/flat")
    page = Page(browser, server)
    try:
        page.open()
        page.until(lambda: "busy" in page.js("return document.querySelector('.status').className"))
    finally:
        stop_server(server)
    page.until(lambda: "The server has stopped" in page.text(".banner"))


def test_a_report_is_slid_and_clicked_without_a_server(browser: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "polinfer"]
    plan = ["plan", "gridworld/ablation", "--method", "exact", "--out", "run"]
    for words in (plan, ["report", "run"]):
        subprocess.run([*command, *words], cwd=tmp_path, check=True, capture_output=True)
    page = Page(browser, Server(None, (tmp_path / "run" / "report.html").as_uri(), tmp_path))  # type: ignore[arg-type]
    browser.get("about:blank")
    browser.get_log("browser")  # what another test left
    page.open()
    page.solved()
    page.press_cell(0, 1)
    assert page.until(page.probabilities)["down"] == pytest.approx(80, abs=1)
    page.slide(1000)
    page.until(lambda: page.probabilities()["down"] >= 99)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
