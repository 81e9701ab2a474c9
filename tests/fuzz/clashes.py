"""Options that no environment has, flags that clash, places that cannot be written to, results that are damaged."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp

from polinfer.cli import main
from polinfer.runs.lock import release_all

from .harness import PIPE, PLACE, Case
from .kinds import SPARSE, base_files
from .lies import DIGITS
from .mutate import NUMBERS, dump, mutate_file, odd_value

_ENVIRONMENTS = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "Blackjack-v1", "CartPole-v1", "MountainCar-v0", "Pendulum-v1",
                 "Acrobot-v1", "LunarLander-v3", "FrozenLake-v0", "frozenlake-v1", "FrozenLake", "ALE/Pong-v5", "a:b:c", "os:path-v0",
                 "FrozenLake-v1 ", "FrozenLake-v99999999999999999999", "MiniGrid-Empty-5x5-v0", "phys2d/CartPole-v1", "tabular/Blackjack-v0")  # fmt: skip
_DESCS = ([], [""], ["S"], ["G"], ["SG"], ["FF"], ["SG", "F"], [["S", "G"]], ["S" * 9], [1, 2], "SG", ["sg"], ["S\u200bG"], ["XY"], ["SS", "GG"],
          ["HHHH"], {"S": "G"}, [["SG"]], 5, None, [None], ["ＳG"], [[["S"]]])  # fmt: skip


def option_case(seed: int) -> Case:
    """Draw an environment with options of every sort."""
    chance = Random(f"option {seed}")
    name = chance.choice([_ENVIRONMENTS[0]] * 6 + list(_ENVIRONMENTS))
    words = [f"gym:{name}"]
    for _ in range(chance.choice([1, 1, 2, 3])):
        kind = chance.randrange(9)
        value = chance.choice(
            [
                dump(odd_value(chance)).decode("utf-8", "replace"),
                str(chance.choice(NUMBERS)),
                chance.choice(DIGITS),
            ]
        )[:500]
        value = value.replace("\0", "")
        if kind == 0:
            words += [chance.choice(["--set", "--gym-kwargs"]), f"desc={json.dumps(chance.choice(_DESCS))}"]
        elif kind == 1:
            key = chance.choice(["is_slippery", "success_rate", "reward_schedule", "map_name", "max_episode_steps", "render_mode", "natural", "fickle_passenger", "gravity", "apply_api_compatibility", "disable_env_checker", "entry_point", "id", "self", "env", "kwargs", "vector_kwargs", "", "a b", "__class__", "wrappers", "horizon", "reward_scale", "abstraction", "edges", "encode", "identity", "bins", "reset_seed", "gym_kwargs", "prior", "policies", "discount"])  # fmt: skip
            words += [chance.choice(["--set", "--gym-kwargs"]), f"{key}={value}"]
        elif kind == 2:
            cuts = chance.choice(["x0=8", "x0=0", "x0=-1", "x0=1000000000", "x0=0.1,0", "x0=nan", "x0=inf,1", "x9=3", "x0=", "=3", "x0=1,1", "y=3", "x0=1e400", "x2=-0.1,0.1", "x0=٣", "x0=8.5", "0=3", "x00=2"])  # fmt: skip
            words += ["--bins", cuts]
        elif kind == 3:
            words += ["--wrapper", chance.choice(["gymnasium.wrappers:TimeLimit", "gymnasium.wrappers:FlattenObservation", "json:loads", "nothing:Here", "x", "", ":", "json:", "gymnasium.wrappers:NoSuch", "math:pi", "builtins:print", "a.b.c:d", "gymnasium.wrappers:RecordEpisodeStatistics"])]  # fmt: skip
        elif kind == 4:
            words += ["--identity", chance.choice(["json:dumps", "builtins:id", "builtins:len", "math:pi", "x:y", "", "builtins:repr", "operator:not_"])]  # fmt: skip
        elif kind == 5:
            words += [
                chance.choice(["--draws", "--max-states"]),
                chance.choice([*DIGITS, "1", "3", "10"])[:300],
            ]
        elif kind == 6:
            words += ["--markov", chance.choice(["check", "ignore", "x"])]
        elif kind == 7:
            words += [
                chance.choice(["--discount", "--reward-scale"]),
                chance.choice([*DIGITS, "auto", "auto=2", "auto=x", "0.5"])[:300],
            ]
        else:
            words += ["--set", chance.choice(["", "=", "x", "==", "a=b=c", "\ufeffis_slippery=true", "is_slippery", "is_slippery=true"])]  # fmt: skip
    words += ["--horizon", chance.choice(["1", "2", "2", "3"]), "--json"]
    if "--max-states" not in words:
        words += ["--max-states", "20"] if chance.random() < 0.5 else []
    return Case("option", seed, ["compare", *words, "--no-learned", "--limit", "1"], {})


_OUTS = ("run", "run/", "./run", "a/b/c/run", "file", "file/run", "pipe", "loop", "loop/run", "full", "full/", "empty", ".", "..", "/", "/proc/run",
         "/dev/null", "/dev/full", "/sys/run", "", " ", "~", "~/x", "~nobody", "run.", "run..", "...", "a" * 300, "r/" * 600, "run\nx", "[red]", "é", "\ud800", "-x", "--json",
         "%d", "run.npz", "link", "dangling", "unwritable/run", "CON", "\u202erun", "x" * 255)  # fmt: skip
_COMBINED = {
    "--seed": [*NUMBERS[:16], 2**63 - 1, 2**64, 2**64 - 1, "1e3", "٣", "-0"],
    "--seeds": [0, 1, 2, -1, 2**64, "1.0", "x", ""],
    "--jobs": [0, -1, 1, 2**64, "x", "1.5"],
    "--time-limit": [0, -1, "nan", "inf", "-inf", 1e-300, 5e-324, 1e300, 0.01, "1h", "-0.0"],
    "--episodes": [0, -1, 1, 2**63, 1e3, "nan"],
    "--mode": ["stepwise", "thompson", "x", ""],
    "--certify": ["none", "default", "thorough", "x"],
    "--horizon": [1, 2, 0, -1, 2**31, 2**63, 2**64, "inf", "nan", "2.0", "٢", "1e2"],
    "--discount": [0, 1, 0.5, 1.5, -1, "nan", "inf", 5e-324, 1 - 1e-16, "x"],
    "--reward-scale": [0, -0.0, 1e-300, 1e300, "nan", "auto", "auto=0", "auto=1", "auto=nan", "AUTO", "auto=0.5", -1, 1e6, 1e-6],
    "--prior-strength": [0, 2, -1, "nan", 1e300],
    "--limit": [0, 1, -1, 5000, 10**18, 10**19, "nan"],
    "--method": ["exact", "auto", "nothing", "", "EXACT", "wake"],
    "--prior": ["run", "full", "file", "pipe", "loop", "nothing.csv", "", ".", "table.json"],
    "--map": ["file", "pipe", "S.G", ".", "full", ""],
    "--set": ["x=1", "map=S.G", "horizon=2", "success_prob=0.5", "success_prob=-0.0", "success_prob=1e-12", "", "goal_reward=1e6"],
}  # fmt: skip
_SWITCHES = ("--resume", "--overwrite", "--force", "--time-dependent", "--no-table-cache", "--json", "--resume", "--overwrite", "--no-json", "--resume=true", "--", "-h", "-", "--=", "---")  # fmt: skip


def combination_case(seed: int) -> Case:
    """Draw flags that clash, and places that cannot be written to, and compute what is left over."""
    chance = Random(f"combination {seed}")
    files: dict[str, bytes | str] = {
        "file": b"x",
        "pipe": PIPE,
        "loop": "loop",
        "dangling": "nowhere/at/all",
        "link": "empty",
        "empty/": b"",
        "unwritable": "/proc/self/fdinfo",
        "table.json": dump(SPARSE),
        **{f"full/{name}": data for name, data in base_files("exact").items()},
    }
    problem = chance.choice(["gridworld/ablation", "gridworld/ablation", "continuation", "table.json"])
    words = ["plan", problem, "--method", "exact", "--horizon", "2", "--episodes", "10"]
    for _ in range(chance.choice([1, 2, 2, 3, 4])):
        kind = chance.random()
        if kind < 0.35:
            words += ["--out", chance.choice(_OUTS)]
        elif kind < 0.55:
            words.append(chance.choice(_SWITCHES))
        else:
            flag = chance.choice(list(_COMBINED))
            if flag in words and flag != "--set":
                place = words.index(flag)
                del words[place : place + 2]
            words += [flag, str(chance.choice(_COMBINED[flag]))]
    if chance.random() < 0.3 and len(words) > 8:
        words.pop(chance.randrange(2, len(words)))
    words = [word.replace("\ud800", "?") for word in words]
    if "--out" not in words:
        words += ["--out", "new"]
    return Case("combination", seed, [*words, *([] if "--json" in words else ["--json"])], files)


@cache
def _reproduced() -> dict[str, bytes]:
    """Return the files of an experiment whose exact answers were reproduced; training them takes long."""
    folder = Path(mkdtemp(prefix="polinfer-fuzz-")) / "results"
    words = ["worked", "--methods", "posterior", "soft", "--budget", "smoke", "--jobs", "1"]
    assert main(["reproduce", *words, "--out", str(folder), "--json"]) == 0
    release_all()
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unit_case(seed: int) -> Case:
    """Draw results of `reproduce` in which something is damaged, and ask what is missing or for a report."""
    chance = Random(f"unit {seed}")
    files: dict[str, bytes | str] = dict(_reproduced())
    for _ in range(chance.choice([1, 1, 3])):
        name = chance.choice(sorted(files))
        data = files[name]
        kind = chance.random()
        if kind < 0.7 and isinstance(data, bytes):
            files[name] = mutate_file(chance, name, data)
        elif kind < 0.85:
            files[name] = chance.choice([PIPE, "/dev/zero", "nowhere", "."])
        else:
            del files[name]
            files[f"{name}/inside"] = b"x"
    inside = {f"results/{name}": data for name, data in files.items()}
    words = ["reproduce", "worked", "--budget", "smoke", "--dry-run", "--out", f"{PLACE}/results", "--json"]
    return Case("unit", seed, words, inside)
