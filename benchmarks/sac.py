"""Steps per second of soft actor-critic against a CleanRL-style PyTorch loop, in one run on one machine.

python benchmarks/sac.py [--torch-steps 3000]      (needs the extra [bench])
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import polinfer
from polinfer import SacConfig
from polinfer.actor_critic.fit import choose_sac_representation, sac_segments, sac_trainer
from polinfer.actor_critic.replay import lay_in
from polinfer.actor_critic.sac import make_sac_trainer

DOMAIN = "gridworld/multimodal"
BLOCK = 10_000


def run_speed(mdp: polinfer.MDP, config: SacConfig, seeds: int) -> float:
    """Return steps per second of all seeds together, as a run has it, once it learns."""
    short = replace(config, steps=400_000, learning_starts=20_000)
    marks: list[tuple[int, float]] = []
    for piece in sac_segments(mdp, short, 0, sac_trainer(mdp, short).init(range(seeds))):
        marks.append((piece.done, time.perf_counter()))
        if piece.done >= 60_000:
            break
    (first, then), (last, now) = marks[-9], marks[-1]
    return (last - first) * seeds / (now - then)


def polinfer_speed(mdp: polinfer.MDP, config: SacConfig, by_table: bool, seeds: int, rows: int) -> float:
    """Return steps per second of one batch in one thread, with a store of `rows` rows."""
    trainer = make_sac_trainer(mdp, config, by_table, BLOCK)
    state = trainer.init(range(seeds))
    store = jnp.zeros((seeds, rows + BLOCK, trainer.width), jnp.int32)
    marks = []
    for number in range(5):
        first, last = (jnp.asarray(n * BLOCK // config.steps_per_update) for n in (number, number + 1))
        run = trainer.learn if number else trainer.collect
        state, fresh, _ = run(state, store, jnp.asarray(number * BLOCK), first, last)
        store = lay_in(store, fresh, jnp.asarray(number * BLOCK), jnp.asarray(BLOCK))
        jax.block_until_ready(store)
        marks.append(time.perf_counter())
    return 3 * BLOCK * seeds / (marks[-1] - marks[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-steps", type=int, default=3000)
    parser.add_argument("--presets", nargs="+", default=["a", "b"])
    arguments = parser.parse_args()
    mdp = polinfer.make(DOMAIN)
    table = polinfer.tabulate(mdp)
    features = np.asarray(jax.vmap(table.encode)(jnp.arange(table.num_states)))
    for preset in arguments.presets:
        config = SacConfig(preset=preset)
        print(f"\n{DOMAIN}, preset {preset}: steps per second, training included")
        speeds = {}
        for name, view, by_table in (
            ("once per distinct state", choose_sac_representation(mdp, config).mdp, True),
            ("once per transition", table, False),
        ):
            for seeds in (1, 25) if preset == "a" else (1,):
                speeds[seeds, name] = polinfer_speed(view, config, by_table, seeds, 200_000)
                print(f"  polinfer, networks {name:24} {seeds:3} seeds {speeds[seeds, name]:10,.0f}")
        if preset == "a":
            speeds[25, "as a run, two threads"] = run_speed(mdp, config, 25)
            speed = speeds[25, "as a run, two threads"]
            print(f"  polinfer, as a run, two threads            25 seeds {speed:10,.0f}")
        try:
            from torch_sac import steps_per_second
        except ImportError:
            print("  (no PyTorch: pip install 'polinfer[bench]')")
            continue
        baseline = steps_per_second(table, features, config, arguments.torch_steps)
        print(f"  PyTorch loop                                      1 seed  {baseline:10,.0f}")
        for (seeds, name), speed in speeds.items():
            print(f"  ratio, {name:24} {seeds:3} seeds {speed / baseline:6.1f}x")
    print("\nsize of the replay store, one seed, preset a: the speed must not depend on it")
    for rows in (50_000, 2_000_000):
        speed = polinfer_speed(table, SacConfig(preset="a"), True, 1, rows)
        print(f"  {rows:10,} rows {speed:10,.0f} steps per second")


if __name__ == "__main__":
    main()
