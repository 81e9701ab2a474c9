"""The explorer under many clients: does every request get an answer, how late, and in how much memory?

    python studies/explorer_load.py [--clients 50] [--seconds 120] [--out runs/explorer_load.json]

Starts one server on loopback, talks to that server only, and stops it and itself when the time is over.
A client is a thread with a connection of its own, which does what a page does: loads it, asks for
computations, waits for their ends, slides, opens a table, sends nonsense.  Every fifth client listens to
events instead.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

MOST_CLIENTS, MOST_SECONDS = 100, 600.0
TIMEOUT = 60.0  # seconds after which a request counts as lost
PROBLEM = {"type": "grid", "map": "..G\n.RW\nS..", "success_prob": 0.8, "horizon": 10}
TABLE = {
    "state_names": ["on", "off"],
    "action_names": ["run", "stop"],
    "initial": "on",
    "absorbing": ["off"],
    "horizon": 3,
    "outcomes": [["on", "run", "on", 1.0, 1.0], ["on", "stop", "off", 1.0, 0.0]],
}
KINDS = ("problem", "draft", "answer", "explain", "path", "neighbours", "certificate")


class Tally:
    """What all clients saw."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.latency: dict[str, list[float]] = {}
        self.statuses: Counter[str] = Counter()
        self.lost: list[str] = []
        self.ends: Counter[str] = Counter()  # of computations
        self.events = 0

    def add(self, name: str, seconds: float, status: int) -> None:
        with self.lock:
            self.latency.setdefault(name, []).append(seconds)
            self.statuses[f"{name} {status}"] += 1

    def lose(self, what: str) -> None:
        with self.lock:
            self.lost.append(what)

    def finish(self, end: str) -> None:
        with self.lock:
            self.ends[end] += 1


class Client:
    """One connection, and the cookie that goes with it."""

    def __init__(self, port: int, token: str, tally: Tally) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        self.headers = {"cookie": f"polinfer-{port}={token}"}
        self.tally = tally

    def send(
        self, name: str, method: str, path: str, body: Any = None, allowed: tuple[int, ...] = (200,)
    ) -> Any:
        """Send a request and return what came; whatever is not allowed, or does not come, is lost."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = self.headers | ({} if content is None else {"content-type": "application/json"})
        began = time.perf_counter()
        try:
            self.connection.request(method, path, content, headers)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.tally.lose(f"{name}: {type(error).__name__} {error}")
            self.connection.close()
            return None
        self.tally.add(name, time.perf_counter() - began, answer.status)
        if answer.status not in allowed:
            self.tally.lose(f"{name}: status {answer.status} {text[:120]!r}")
        return json.loads(text) if "json" in answer.headers.get("content-type", "") else text


def act(client: Client, chance: random.Random, until: float) -> None:
    """Use the page until the time is over."""
    while time.monotonic() < until:
        match chance.choice(("page", "static", "start", "job", "job", "slide", "slide", "table", "nonsense")):
            case "page":
                client.send("page", "GET", "/")
            case "static":
                client.send("static", "GET", "/static/app.js")
            case "start":
                client.send("start", "GET", "/api/start")
            case "job":
                compute(client, {"kind": chance.choice(KINDS), "problem": PROBLEM}, until)
            case "slide":
                scale = round(10 ** chance.uniform(-1, 1), 2)
                compute(client, {"kind": "draft", "problem": PROBLEM, "scale": scale}, until)
            case "table":
                client.send("table", "POST", "/api/tables", TABLE)
            case "nonsense":
                client.send("nonsense", "POST", "/api/jobs", b'{"kind": 3', allowed=(422,))


def compute(client: Client, request: dict[str, Any], until: float) -> None:
    """Ask for a computation and wait for its end, as far as there is time."""
    state = client.send("submit", "POST", "/api/jobs", request, allowed=(200, 422))
    if state is None or "error" in state:
        return client.tally.finish("refused in a sentence" if state else "lost")
    while state.get("state") in ("queued", "running"):
        if time.monotonic() > until:
            return client.tally.finish("unfinished when time was over")
        time.sleep(0.2)
        state = client.send("look", "GET", f"/api/jobs/{state['key']}", allowed=(200, 202))
        if state is None:
            return client.tally.finish("lost")
        if "state" not in state:
            return client.tally.finish("done")
    client.tally.finish(state["state"])
    return None


def listen(port: int, token: str, tally: Tally, until: float) -> None:
    """Hear the events, as every page does."""
    client = Client(port, token, tally)
    try:
        client.connection.request("GET", "/api/events", headers=client.headers)
        stream = client.connection.getresponse()
        while time.monotonic() < until:
            if stream.readline().startswith(b"data:"):
                with tally.lock:
                    tally.events += 1
    except (OSError, http.client.HTTPException) as error:
        tally.lose(f"events: {type(error).__name__} {error}")
    finally:
        client.connection.close()


def resident(pid: int) -> float:
    """Return the memory, in MiB, of a process and its children."""
    pids, total = [pid], 0
    for number in pids:
        try:
            status = Path(f"/proc/{number}/status").read_text()
            pids += map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split())
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return total / 1024


def load(clients: int, seconds: float) -> dict[str, Any]:
    """Run the server and its clients; return what was seen."""
    command = [sys.executable, "-m", "polinfer", "explore", "--no-open", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            address = urlsplit(json.loads(server.stdout.readline())["address"])
            assert address.hostname == "127.0.0.1"
            assert address.port is not None
            return _drive(server.pid, address.port, parse_qs(address.query)["token"][0], clients, seconds)
        finally:
            server.kill()
            server.wait(timeout=10)


def _drive(pid: int, port: int, token: str, clients: int, seconds: float) -> dict[str, Any]:
    tally, memory = Tally(), []
    until = time.monotonic() + seconds
    threads = []
    for number in range(clients):
        if number % 5 == 4:
            arguments: tuple[Any, ...] = (port, token, tally, until)
            threads.append(threading.Thread(target=listen, args=arguments, daemon=True))
        else:
            arguments = (Client(port, token, tally), random.Random(number), until)
            threads.append(threading.Thread(target=act, args=arguments, daemon=True))
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        memory.append(resident(pid))
        time.sleep(1.0)
    for thread in threads:
        thread.join(timeout=TIMEOUT)
    after = Client(port, token, tally)
    after.send("afterwards", "GET", "/api/start")
    quarter = max(1, len(memory) // 4)
    every = [value for values in tally.latency.values() for value in values]
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(every),
        "lost": tally.lost,
        "stuck clients": sum(thread.is_alive() for thread in threads),
        "computations": dict(tally.ends),
        "events heard": tally.events,
        "statuses": dict(sorted(tally.statuses.items())),
        "memory, MiB": {
            "first quarter, highest": round(max(memory[:quarter])),
            "last quarter, highest": round(max(memory[-quarter:])),
            "highest": round(max(memory)),
        },
        "latency, ms": {
            name: dict(zip(("p50", "p95", "p99", "max"), _percentiles(values), strict=True))
            | {"count": len(values)}
            for name, values in [*sorted(tally.latency.items()), ("all", every)]
        },
    }


def _percentiles(values: list[float]) -> list[float]:
    return [round(1000 * float(value), 1) for value in np.percentile(values, [50, 95, 99, 100])]


def main() -> int:
    """Print and keep what was seen; fail where a request was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--out", type=Path, default=Path("runs/explorer_load.json"))
    given = parser.parse_args()
    if not 1 <= given.clients <= MOST_CLIENTS or not 1 <= given.seconds <= MOST_SECONDS:
        parser.error(f"at most {MOST_CLIENTS} clients and {MOST_SECONDS:g} seconds")
    found = load(given.clients, given.seconds)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 1 if found["lost"] or found["stuck clients"] else 0


if __name__ == "__main__":
    sys.exit(main())
