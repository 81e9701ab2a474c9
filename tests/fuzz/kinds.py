"""The kinds of cases: run folders, tables, maps, flags and options of Gymnasium environments, each from a seed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import numpy as np

from polinfer.cli import main
from polinfer.cli.main import COMMANDS, command_named
from polinfer.cli.parser import known_flags
from polinfer.cli.plan import plan_command
from polinfer.methods import METHODS
from polinfer.problems.registry import make
from polinfer.runs.folder import infer_in_folder
from polinfer.runs.lock import release_all

from .harness import PLACE, Case
from .mutate import NUMBERS, WORDS, dump, mutate_bytes, mutate_file, odd_value

DENSE: dict[str, Any] = {
    "transitions": [
        [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]],
        [[0.0, 0.5, 0.5], [1, 0, 0]],
        [[0, 0, 0], [0, 0, 1]],
    ],
    "rewards": [[1.5, -2], [0.25, 3], [0, 0]],
    "initial": [0.75, 0.25, 0],
    "absorbing": [False, False, True],
    "horizon": 7,
    "legal": [[True, True], [True, False], [True, True]],
    "state_names": ["near", "far", "home"],
    "action_names": ["walk", "run"],
    "success": ["home"],
}
SPARSE: dict[str, Any] = {
    "outcomes": [
        ["near", "walk", "far", 0.5, 1],
        ["near", 0, 2, 0.5, -3.5],
        [1, "run", "home", 1, 0],
        [0, 1, 0, 1, 2],
    ],
    "num_states": 3,
    "num_actions": 2,
    "initial": "near",
    "absorbing": [2],
    "horizon": 5,
    "legal": [[True, True], [False, True], [True, True]],
    "state_names": ["near", "far", "home"],
    "action_names": ["walk", "run"],
    "success": [False, False, True],
}
MAP = "..G\n.RW\nS.#\n"


def table_case(seed: int) -> Case:
    """Draw a table file with something wrong, or odd, in it."""
    chance = Random(f"table {seed}")
    contents = chance.choice([DENSE, SPARSE])
    if chance.random() < 0.3:
        contents = {
            **contents,
            "horizon": chance.choice([1, 10**3, 10**5, 10**6, 10**9, 10**18, 2**63, 10**30]),
        }
    if chance.random() < 0.1:
        contents = (
            {**contents, "rewards": [[1e6, -2e6], [1e-6, 3], [0, 0]]} if contents is DENSE else contents
        )
    if chance.random() < 0.25 and contents is DENSE:
        arrays = {name: np.array(value) for name, value in contents.items()}
        written = io.BytesIO()
        np.savez(written, **arrays)
        name, data = "table.npz", mutate_file(chance, "table.npz", written.getvalue())
    else:
        name, data = "table.json", mutate_file(chance, "table.json", dump(contents))
    command = chance.choice(
        [
            ["compare", f"{PLACE}/{name}", "--no-learned", "--json"],
            ["plan", f"{PLACE}/{name}", "--method", "exact", "--json", "--out", f"{PLACE}/run"],
            ["plan", f"{PLACE}/{name}", "--json", "--out", f"{PLACE}/run"],
        ]
    )
    if chance.random() < 0.2:
        command += ["--horizon", str(chance.choice([0, -1, 10**5, 10**6, 10**9, 10**30]))]
    return Case("table", seed, command, {name: data})


def map_case(seed: int) -> Case:
    """Draw a map, usually a bad one."""
    chance = Random(f"map {seed}")
    data = MAP.encode()
    kind = chance.random()
    if kind < 0.4:
        data = "".join(chance.choice(".RGWS#x \n\t\0é") for _ in range(chance.randrange(14))).encode()
    elif kind < 0.7:
        data = mutate_bytes(chance, data)
    elif kind < 0.8:
        data = data.decode().encode(chance.choice(["utf-16", "utf-8-sig", "cp037"]))
    elif kind < 0.85:
        length = chance.choice([2**11, 2**16, 2**20, 2**22])
        # A corridor of 65,536 cells takes half a minute, which one in ten is enough for.
        data = ("S" + "." * (2**12 if length == 2**16 and seed % 10 else length)).encode()
    words = ["compare", "gridworld", "--no-learned", "--map", f"{PLACE}/map.txt", "--limit", "1", "--json"]
    if chance.random() < 0.5:
        option = chance.choice(
            ["success_prob", "gravel_reward", "goal_reward", "step_reward", "horizon", "x"]
        )
        words += ["--set", f"{option}={_written(chance)}"]
    words += ["--horizon", str(chance.choice([2, 2, 2, 10**5, 10**9, 10**30]))] if kind > 0.2 else []
    return Case("map", seed, words, {"map.txt": data})


def gym_case(seed: int) -> Case:
    """Draw options of Gymnasium environments."""
    chance = Random(f"gym {seed}")
    name = chance.choice(
        ["FrozenLake-v1", "FrozenLake-v1", "CliffWalking-v1", "Blackjack-v1", "", "Nope-v0", "../x.py:A"]
    )
    words = ["compare", f"gym:{name}", "--no-learned", "--limit", "1", "--json", "--horizon"]
    words.append(str(chance.choice([3, 3, 0, -1, 10**9, 10**30])))
    for _ in range(chance.randrange(1, 3)):
        option = chance.choice(
            ["is_slippery", "map_name", "desc", "natural", "sab", "success_rate", "x", "render_mode"]
        )
        words += ["--set", f"{option}={_written(chance)}"]
    return Case("gym", seed, words, {})


def _written(chance: Random) -> str:
    value = odd_value(chance)
    if isinstance(value, str) and chance.random() < 0.7:
        return value.replace("\0", "")
    if chance.random() < 0.02:
        return "[" * 5000 + "]" * 5000
    return dump(value).decode("utf-8", "surrogatepass")[:6000]


@cache
def _flags_of(command: str, method: str) -> tuple[str, ...]:
    made = plan_command(method) if command == "plan" else command_named(command)
    return tuple(sorted(known_flags(made) - {"--debug"}))


_BASES = {
    "plan": ["gridworld/ablation"],
    "compare": ["gridworld/ablation", "--no-learned"],
    "path": ["gridworld/ablation", "--points", "2"],
    "explain": [f"{PLACE}/none"],
    "report": [f"{PLACE}/none"],
    "reproduce": ["worked"],
    "certify": [f"{PLACE}/none"],
    "explore": ["--no-open"],
    "list": [],
}
_TEXTS = tuple(word for word in WORDS if "\0" not in word and "\ud800" not in word)


def flag_case(seed: int) -> Case:
    """Draw words after a command; nothing that passes all checks is computed (`test_fuzz` sees to that)."""
    chance = Random(f"flag {seed}")
    command = chance.choice(["plan"] * 6 + list(COMMANDS) + ["pla", "--jso", ""])
    if command not in COMMANDS:
        return Case("flag", seed, [command, "x"], {})
    method = chance.choice(list(METHODS))
    words = [command, *_BASES.get(command, [])]
    if command == "plan":
        words += ["--method", method]
    for _ in range(chance.choice([1, 1, 2, 3])):
        flag = chance.choice(
            _flags_of(command, method) if command in _BASES or command == "plan" else ["--json"]
        )
        flag = _misspelt(chance, flag) if chance.random() < 0.1 else flag
        value = str(chance.choice([*NUMBERS, *_TEXTS, 1, 2, 3, 0.5, 10]))[:6000]
        words += chance.choice(
            [[flag], [flag, value], [flag, value], [flag, value], [f"{flag}={value}"], [value]]
        )
    return Case("flag", seed, [*words, "--json"], {})


def _misspelt(chance: Random, flag: str) -> str:
    at = chance.randrange(2, len(flag))
    return flag[:at] + chance.choice(["", "x", flag[at] * 2]) + flag[at + 1 :]


@cache
def _bases() -> dict[str, tuple[dict[str, bytes], list[str]]]:
    """Run folders before they are damaged, and the words that go on with each."""
    place = Path(mkdtemp(prefix="polinfer-fuzz-"))
    table = place / "table.json"
    table.write_text(json.dumps(SPARSE))
    wake = ["--method", "wake", "--sweeps", "20", "--particles", "4", "--episodes", "10"]
    runs = {
        "exact": ["gridworld/ablation", "--method", "exact", "--horizon", "3"],
        "table": [str(table), "--method", "exact"],
        "wake": ["gridworld/ablation", "--horizon", "3", *wake],
    }
    found = {}
    for name, words in runs.items():
        folder = place / name
        assert main(["plan", *words, "--json", "--out", str(folder)]) == 0
        kept = [path for path in folder.iterdir() if path.suffix != ".png"]
        found[name] = ({path.name: path.read_bytes() for path in kept}, words)
    return found


def base_files(name: str) -> dict[str, bytes]:
    """Return the files of a run before they are damaged."""
    return _bases()[name][0]


def folder_case(seed: int) -> Case:
    """Draw a run folder in which one file is damaged."""
    chance = Random(f"folder {seed}")
    base = chance.choice(sorted(_bases()))
    files: dict[str, bytes | str] = dict(_bases()[base][0])
    name = chance.choice([file for file in sorted(files) if not file.endswith(".jsonl")])
    kind, data = chance.random(), files[name]
    assert isinstance(data, bytes)
    if kind < 0.9:
        files[name] = mutate_file(chance, name, data)
    elif kind < 0.93:
        del files[name]
    elif kind < 0.97:
        files[name] = chance.choice(
            ["/dev/zero", "/etc/passwd", "nowhere", ".", "/proc/self/mem", "config.json"]
        )
    else:
        files.pop(name)
        files[f"{name}/inside"] = b"x"
    inside = {f"run/{file}": content for file, content in files.items()}
    reader = "explain" if name != "summary.json" else "report"
    words = [chance.choice([reader, reader, "explain", "report"]), f"{PLACE}/run", "--json"]
    return Case("folder", seed, words, inside)


POLICIES = {
    "policy.csv": b"state,action,probability\nnear,walk,0.25\nnear,run,0.75\nfar,run,1\nhome,walk,1\n",
    "policy.json": b'{"near": "walk", "far": "run", "home": "walk"}',
}


def policy_case(seed: int) -> Case:
    """Draw a policy file, damaged, to be compared with a posterior."""
    chance = Random(f"policy {seed}")
    written = io.BytesIO()
    np.save(written, np.array([0, 1, 0]) if seed % 2 else np.array([[0.25, 0.75], [0.0, 1.0], [0.5, 0.5]]))
    name = chance.choice([*POLICIES, "policy.npy"])
    content = POLICIES.get(name, written.getvalue())
    if name == "policy.csv" and chance.random() < 0.6:
        words = content.decode().replace("\n", ",\n,").split(",")
        words[chance.randrange(len(words))] = _written(chance).replace("\ud800", "?")
        damaged = ",".join(words).replace(",\n,", "\n").encode()
    else:
        damaged = mutate_file(chance, name, content)
    words = ["certify", f"{PLACE}/table.json", "--policy", f"{PLACE}/{name}", "--json"]
    return Case("policy", seed, words, {"table.json": dump(SPARSE), name: damaged})


class _StopError(Exception):
    pass


@cache
def _interrupted() -> dict[str, bytes]:
    """Return the files of a run that was stopped after its first checkpoint."""
    folder = Path(mkdtemp(prefix="polinfer-fuzz-")) / "run"

    def stop(_: Any) -> None:
        raise _StopError

    problem = make("gridworld/ablation", horizon=3)
    with suppress(_StopError):
        infer_in_folder(problem, "wake", folder, progress=stop, sweeps=20, particles=4)
    release_all()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def resume_case(seed: int) -> Case:
    """Draw an interrupted run in which one file is damaged, and go on with it."""
    chance = Random(f"resume {seed}")
    files: dict[str, bytes | str] = dict(_interrupted())
    name = chance.choice(["checkpoint.safetensors"] * 3 + ["config.json"])
    data = files[name]
    assert isinstance(data, bytes)
    files[name] = mutate_file(chance, name, data)
    inside = {f"run/{file}": content for file, content in files.items()}
    words = ["plan", *_bases()["wake"][1], "--out", f"{PLACE}/run", "--resume", "--json"]
    return Case("resume", seed, words, inside)


KINDS: dict[str, Callable[[int], Case]] = {
    "folder": folder_case,
    "table": table_case,
    "map": map_case,
    "flag": flag_case,
    "gym": gym_case,
    "resume": resume_case,
    "policy": policy_case,
}
