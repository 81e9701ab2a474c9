"""Further kinds of cases: maps, policies, tables and run folders as no program of ours writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import numpy as np

from .clashes import combination_case, option_case, unit_case
from .harness import PIPE, PLACE, Case
from .kinds import DENSE, POLICIES, SPARSE, base_files
from .lies import DIGITS, LETTERS, contradict, lying_array, odd_archive, odd_policy, retype, sheet
from .mutate import NUMBERS, dump

_REWARDS = ("goal_reward", "swamp_reward", "step_reward", "gravel_reward", "reward_scale")
_MAP_OPTIONS = ("success_prob", "horizon", *_REWARDS)


def _any_map(chance: Random) -> str:
    width, height = chance.choice([(1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (4, 3)])
    rows = ["".join(chance.choice("..." + LETTERS) for _ in range(width)) for _ in range(height)]
    if chance.random() < 0.8:
        rows[0] = "S" + rows[0][1:]
    return "\n".join(rows) + chance.choice(["", "\n", "\n\n", "\r\n", " \n"])


def glyph_case(seed: int) -> Case:
    """Draw a map that an odd editor wrote, or something in the place of a map."""
    chance = Random(f"glyph {seed}")
    text = _any_map(chance)
    data: bytes | str = retype(chance, text) if chance.random() < 0.8 else text.encode()
    name, kind = "map.txt", chance.random()
    if kind < 0.05:
        data = chance.choice([PIPE, "/dev/null", "map.txt", ".", "/proc/self/mem", "missing", "/dev/full"])
    elif kind < 0.1:
        name = chance.choice(
            ["map.txt/inside", "m\tap", "ü.txt", "map.txt ", "-map", "[red]", "map.npz", "%s"]
        )
    given = name.partition("/")[0]
    how = chance.random()
    if how < 0.6:
        words = ["--map", f"{PLACE}/{given}"]
    elif how < 0.7:
        words = ["--map", given]
    else:
        shown = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
        shown = shown.replace("\0", "?")
        words = chance.choice(
            [[f"--map={shown}"], ["--set", f"map={shown}"], [f"--set=map={dump(shown).decode()}"]]
        )
    words = ["gridworld", *words, "--json"]
    for _ in range(chance.choice([0, 0, 1, 2])):
        value = str(chance.choice([*NUMBERS, *DIGITS]))[:400]
        words += ["--set", f"{chance.choice(_MAP_OPTIONS)}={value}"]
    if chance.random() < 0.7 and not any("horizon" in word for word in words):
        words += ["--horizon", chance.choice(["1", "2", "2", "3"])]
    compare = ["compare", *words, "--no-learned", "--limit", "1"]
    return Case("glyph", seed, chance.choice([compare, compare, _planned(chance, words)]), {name: data})


def _planned(chance: Random, words: list[str]) -> list[str]:
    few = ["--method", "exact", "--limit", "5000"] if chance.random() < 0.7 else []
    return ["plan", *words, *few, "--episodes", "10", "--out", f"{PLACE}/run"]


def sheet_case(seed: int) -> Case:
    """Draw a policy file that another program might write, used as a policy or as a prior."""
    chance = Random(f"sheet {seed}")
    name = chance.choice(["policy.csv", "policy.csv", "policy.json", "policy.npy", "policy.npz"])
    array = chance.choice([np.array([0, 1, 0]), np.array([[0.25, 0.75], [0.0, 1.0], [0.5, 0.5]])])
    data: bytes | str
    if name == "policy.csv":
        data = sheet(chance)
    elif name == "policy.json":
        data = odd_policy(chance)
    elif name == "policy.npy":
        data = lying_array(chance, array)
    else:
        data = odd_archive(chance, {"policy": array, **({"more": array} if chance.random() < 0.2 else {})})
    if chance.random() < 0.04:
        data = chance.choice([PIPE, "/dev/zero", name, ".", "/proc/self/mem", "missing"])
    if chance.random() < 0.1:
        name = name.replace(".", chance.choice([".x.", "..", ".\u200b", "\n."]))
    files: dict[str, bytes | str] = {"table.json": dump(SPARSE), name: data}
    use = chance.random()
    where = f"{PLACE}/{name}"
    if use < 0.6:
        words = ["certify", f"{PLACE}/table.json", "--policy", where]
    elif use < 0.8:
        words = ["compare", f"{PLACE}/table.json", "--no-learned", "--prior", where]
    else:
        words = [
            "plan",
            f"{PLACE}/table.json",
            "--method",
            "exact",
            "--prior",
            where,
            "--out",
            f"{PLACE}/run",
        ]
    if use > 0.6 and chance.random() < 0.3:
        words += ["--prior-strength", str(chance.choice([*NUMBERS[:30], *DIGITS]))[:300]]
    return Case("sheet", seed, [*words, "--json"], files)


def archive_case(seed: int) -> Case:
    """Draw a table in an archive of arrays, or in JSON, that lies."""
    chance = Random(f"archive {seed}")
    files: dict[str, bytes | str]
    if chance.random() < 0.7:
        contents = chance.choice(
            [
                DENSE,
                {
                    **SPARSE,
                    "outcomes": [[0, 0, 1, 0.5, 1], [0, 0, 2, 0.5, -3.5], [1, 1, 2, 1, 0], [0, 1, 0, 1, 2]],
                    "initial": 0,
                },
            ]
        )
        files = {
            "table.npz": odd_archive(chance, {name: np.array(value) for name, value in contents.items()})
        }
    else:
        files = {"table.json": retype(chance, json.dumps(contradict(chance), ensure_ascii=False))}
    (name,) = files
    if chance.random() < 0.04:
        files = {name: chance.choice([PIPE, "/dev/zero", name, ".", "missing"])}
    words = chance.choice(
        [
            ["compare", f"{PLACE}/{name}", "--no-learned"],
            ["plan", f"{PLACE}/{name}", "--method", "exact", "--out", f"{PLACE}/run"],
            ["certify", f"{PLACE}/{name}", "--policy", f"{PLACE}/policy.json"],
            ["path", f"{PLACE}/{name}", "--points", "2"],
        ]
    )
    files["policy.json"] = POLICIES["policy.json"]
    return Case("archive", seed, [*words, "--json"], files)


_PLACES = (
    PIPE,
    "/dev/zero",
    "/dev/null",
    "/dev/full",
    "config.json",
    ".",
    "..",
    "../run",
    "../../run",
    "/etc/passwd",
    "/proc/self/mem",
    "nowhere",
    "/dev/stdin",
)
_READERS = (
    ["explain"],
    ["report"],
    ["certify"],
    ["explain", "--code", "x:y"],
    ["explain", "--top", "1"],
    ["explain", "--given", "(1,1)=left"],
    ["explain", "--given", "x"],
)


def place_case(seed: int) -> Case:
    """Draw a run folder in which files are pipes, links, of another run, or the folder is something else."""
    chance = Random(f"place {seed}")
    base = chance.choice(["exact", "table", "wake"])
    files: dict[str, bytes | str] = {f"run/{name}": data for name, data in base_files(base).items()}
    where = "run"
    for _ in range(chance.choice([1, 1, 2])):
        kind = chance.randrange(7)
        name = chance.choice(sorted(name for name in files if name.startswith("run/")) or ["run/config.json"])
        if kind <= 1:
            files[name] = chance.choice(_PLACES)
        elif kind == 2:
            other = chance.choice(["exact", "table", "wake"])
            foreign = base_files(other).get(name.removeprefix("run/"))
            if foreign is not None:
                files[name] = foreign
        elif kind == 3:
            files |= {
                "link": "run",
                "loop": "loop",
                "pipe": PIPE,
                "file": b"x",
                "empty/": b"",
                "run./x": b"",
                "run /config.json": b"{}",
            }
            where = chance.choice(
                [
                    "link",
                    "loop",
                    "pipe",
                    "file",
                    "empty",
                    "run.",
                    "run ",
                    "run/.",
                    "run/../run",
                    "missing",
                    "",
                    "run/config.json",
                    "~",
                    "/",
                    "/dev/null",
                    "x" * 300,
                    "a\nb",
                ]
            )
        elif kind == 4:
            files["run/blocks/x.safetensors"] = chance.choice([b"", b"x", PIPE])
            files["run/.config.json.1-1.part"] = chance.choice([b"x", PIPE])
        elif kind == 5:
            data = files[name]
            if isinstance(data, bytes) and name.endswith(".json"):
                files[name] = retype(chance, data.decode())
        else:
            files[
                "run/" + chance.choice(["checkpoint.safetensors", "explored.npz", "table.npz", "table.json"])
            ] = chance.choice([b"x", PIPE, "."])
    words = list(chance.choice(_READERS))
    return Case("place", seed, [words[0], f"{PLACE}/{where}" if where else "", *words[1:], "--json"], files)


_NAMES = ("$x^$", "\\$", "$$", "_x", "", " ", "\x1b]0;t\x07", "\x9b31m", "a\rb", "a\nb", "\u202ex", "\U0001f9ed", "\u5bb6", "x" * 5000, "{}",
          "%s", "[/]", "[red]", "up", "Up", "down", "forward", "row 0 column 1", "row 1 column 0 ", "row 0 column 0 $a^$", "1", "-1", "a,b", "='", "<b>",
          "\u0301", "\ufeff", "nan", "\x7f")  # fmt: skip


def name_case(seed: int) -> Case:
    """Draw a table whose states and actions have odd names, which tables and pictures then show."""
    chance = Random(f"name {seed}")
    table = {
        **SPARSE,
        "outcomes": [[0, 0, 1, 0.5, 1], [0, 0, 2, 0.5, -3.5], [1, 1, 2, 1, 0], [0, 1, 0, 1, 2]],
        "initial": 0,
        "state_names": chance.sample(_NAMES, 3),
        "action_names": chance.sample(_NAMES, 2),
    }
    if chance.random() < 0.3:
        table |= {"success": None, "ending_names": chance.sample(_NAMES, 1), "ending_success": [True]}
        table |= {"ending_of": [-1, -1, 0]}
        del table["success"]
    words = ["plan", f"{PLACE}/table.json", "--method", "exact", "--episodes", "10", "--out", f"{PLACE}/run"]
    return Case("name", seed, [*words, "--json"], {"table.json": dump(table)})


STRANGE: dict[str, Callable[[int], Case]] = {
    "glyph": glyph_case,
    "sheet": sheet_case,
    "archive": archive_case,
    "place": place_case,
    "option": option_case,
    "combination": combination_case,
    "unit": unit_case,
    "name": name_case,
}
