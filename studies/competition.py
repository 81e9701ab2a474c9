"""VSMC and SAC on the planning competition's domains at a reduced budget: Tireworld 1-10, Advising 1-6.

    python studies/competition.py [--seeds 2] [--sweeps 3000] [--steps 60000] [--only tireworld/1 ...]
                                  [--out runs/competition]

Prints the table as Markdown and writes it to table.md.  Tireworld is evaluated exactly, Advising by episodes,
--episodes a seed; the spread is over seeds.  The optimum is exact where it is known.
Every trained row is a run folder under --out: stopped at any moment, the same command goes on where it was.
Transitions per second are those of training without compilation: counted from its first report to its end.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import polinfer
from polinfer import exact
from polinfer.posterior.saving import CONFIG
from polinfer.runs.folder import infer_in_folder

INSTANCES = (*(f"tireworld/{n}" for n in range(1, 11)), *(f"advising/{n}" for n in range(1, 7)))
# These fit a small table without the courses that do not matter: the optimum is the same, the uniform is not.
REDUCED = ("advising/1", "advising/3")
SPEED = "speed.json"


class Reference(NamedTuple):
    optimum: str
    uniform: str


def reference(name: str, episodes: int) -> Reference:
    """Return the optimum where it is known, and what uniform choices earn: exactly, or simulated (≈).

    Uniform choices complete nearly every program of Advising: success without them beside it says nothing.
    """
    mdp = polinfer.make(name)
    if name.startswith("tireworld"):
        table = polinfer.tabulate(mdp)
        uniform = exact.evaluate_policy(table, exact.uniform_policy(table))
        return Reference(_optimum(table), f"{uniform.success:.3f} / {uniform.expected_return:.2f}")
    reduced = polinfer.tabulate(polinfer.make(name, relevant_only=True)) if name in REDUCED else None
    returns, over = (np.asarray(x) for x in _play_uniformly(mdp, episodes))
    spread = returns.std() / np.sqrt(episodes)
    return Reference(
        "" if reduced is None else _optimum(reduced),
        f"≈ {over.mean():.3f} / {returns.mean():.2f} ± {spread:.2f}",
    )


def _optimum(table: polinfer.TabularMDP) -> str:
    best = exact.evaluate_policy(table, exact.finite_horizon_optimum(table).executable)
    return f"{best.success:.3f} / {best.expected_return:.2f}"


def _play_uniformly(mdp: polinfer.MDP, episodes: int) -> tuple[jax.Array, jax.Array]:
    """Return the return and whether the end was reached, each ``[episodes]``."""

    def play(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: Any, key: jax.Array) -> Any:
            state, over, gained = carry
            key_action, key_move = jax.random.split(key)
            action = jax.random.categorical(key_action, jnp.where(mdp.legal(state), 0.0, -jnp.inf))
            moved = mdp.step(key_move, state, action)
            # A terminal state absorbs and earns nothing.
            return (moved.state, over | moved.terminated, gained + moved.reward), None

        key_start, key_steps = jax.random.split(key)
        first = (mdp.init(key_start), jnp.asarray(False), jnp.float32(0.0))
        (_, over, gained), _ = jax.lax.scan(step, first, jax.random.split(key_steps, mdp.horizon))
        return gained, over

    played: tuple[jax.Array, jax.Array] = jax.jit(jax.vmap(play))(
        jax.random.split(jax.random.key(0), episodes)
    )
    return played


def train(
    run: Path, name: str, method: str, seeds: int, **settings: Any
) -> tuple[polinfer.Posterior, float | None]:
    """Train, or go on, or read what was trained; return the transitions per second too, where known."""
    mdp = polinfer.make(name)
    resume = (run / CONFIG).exists()
    run.mkdir(parents=True, exist_ok=True)
    reports: list[tuple[float, float]] = []

    def report(now: polinfer.Report) -> None:
        reports.append((now.done, time.perf_counter()))
        print(f"\r{name} {method}: {now.done:,}   ", end="", flush=True)

    posterior = infer_in_folder(mdp, method, run, seeds=seeds, resume=resume, progress=report, **settings)
    print()
    if len(reports) > 1:
        (first, since), (last, until) = reports[0], reports[-1]
        # A sweep moves every particle through the whole horizon, ended or not.
        each = 1 if method == "sac" else mdp.horizon * settings["particles"]
        rate = (last - first) * each * seeds / (until - since)
        (run / SPEED).write_text(json.dumps({"transitions_per_second": rate}), encoding="utf-8")
    stored = run / SPEED
    speed = (
        json.loads(stored.read_text(encoding="utf-8"))["transitions_per_second"] if stored.exists() else None
    )
    return posterior, speed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sweeps", type=int, default=3_000)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--episodes", type=int, default=2_000, help="per seed, to evaluate what has no table")
    parser.add_argument("--only", nargs="+", choices=INSTANCES, default=INSTANCES, metavar="INSTANCE")
    parser.add_argument("--out", type=Path, default=Path("runs/competition"))
    given = parser.parse_args()
    methods: dict[str, dict[str, Any]] = {
        "vsmc": {"sweeps": given.sweeps, "particles": 10},
        "sac": {"steps": given.steps, "preset": "a", "alpha": 1.0, "gamma": 1.0},
    }
    methods["sac"]["learning_starts"] = min(20_000, given.steps // 4)

    lines = [
        "| instance | method | success | return | optimum: success, return | uniform | transitions/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in given.only:
        known = reference(name, 10 * given.episodes)
        for method, settings in methods.items():
            run = given.out / name.replace("/", "-") / method
            posterior, speed = train(run, name, method, given.seeds, **settings)
            how = {"exactly": True} if name.startswith("tireworld") else {"episodes": given.episodes}
            found = polinfer.evaluate(posterior.mdp, posterior, **how)
            success = "" if found.success is None else f"{np.mean(found.success):.3f}"
            gained = f"{found.mean.mean():.2f} ± {found.mean.std():.2f}"
            rate = "" if speed is None else f"{speed:,.0f}"
            lines.append(
                f"| {name} | {method} | {success} | {gained} | {known.optimum} | {known.uniform} | {rate} |"
            )
    text = "\n".join(lines)
    (given.out / "table.md").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}\n\ntable: {given.out / 'table.md'}")


if __name__ == "__main__":
    main()
