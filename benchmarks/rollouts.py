"""Environment steps a second of compiled random rollouts, against pyRDDLGym's own simulator.

    python benchmarks/rollouts.py

Needs ``pip install 'polinfer[rddl]'`` for the comparison; without it only our own numbers are printed.  Both
sides play the same law, Tireworld 10 and Advising 3 with ``semantics="rddl"``, 40 steps an episode; ours
draws one of the legal actions and theirs one of the grounded ones.  The paper's semantics are timed too.
"""

import importlib.util
import random
import time

import jax
import jax.numpy as jnp
from jax import Array

import polinfer
from polinfer.core.protocol import MDP

BATCH = 1_000
STEPS = 200
REPEATS = 7


def compiled_rate(mdp: MDP) -> float:
    """Return the steps a second in a batch of 1,000, the best of several runs, compilation aside.

    An episode that is over, or as long as its horizon, starts again.
    """

    def rollout(key: Array) -> Array:
        key_start, key_steps = jax.random.split(key)
        start = mdp.init(key_start)

        def step(carry, key_step):
            state, total, time = carry
            key_action, key_move = jax.random.split(key_step)
            uniform = jax.random.uniform(key_action)
            cumulative = jnp.cumsum(mdp.legal(state))
            action = jnp.sum(uniform * cumulative[-1] >= cumulative).astype(jnp.int32)
            moved = mdp.step(key_move, state, action)
            over = moved.terminated | (time + 1 >= mdp.horizon)
            state = jax.tree.map(lambda new, old: jnp.where(over, new, old), start, moved.state)
            return (state, total + moved.reward, jnp.where(over, 0, time + 1)), None

        (_, total, _), _ = jax.lax.scan(
            step, (start, jnp.float32(0.0), jnp.int32(0)), jax.random.split(key_steps, STEPS)
        )
        return total

    run = jax.jit(lambda key: jax.vmap(rollout)(jax.random.split(key, BATCH)).mean())
    run(jax.random.key(0)).block_until_ready()
    best = float("inf")
    for repeat in range(REPEATS):
        started = time.perf_counter()
        run(jax.random.key(repeat)).block_until_ready()
        best = min(best, time.perf_counter() - started)
    return BATCH * STEPS / best


def simulator_rate(domain: str, instance: int, seconds: float = 10.0) -> float:
    """Return the steps a second of pyRDDLGym's own simulator, by tensors, which is its faster way."""
    import pyRDDLGym

    env = pyRDDLGym.make(domain, instance, vectorized=True)
    noop = {name: value.copy() for name, value in env.sampler.noop_actions.items() if hasattr(value, "copy")}
    rng = random.Random(0)
    names = sorted(noop)
    steps, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        env.reset(seed=0)
        for _ in range(40):
            name = rng.choice(names)
            chosen = noop[name].copy()
            chosen.flat[rng.randrange(chosen.size)] = True
            env.step({name: chosen})
            steps += 1
    return steps / (time.perf_counter() - started)


def main() -> None:
    compare = importlib.util.find_spec("pyRDDLGym") is not None
    for name, domain, instance in (
        ("tireworld/10", "TriangleTireworld_MDP_ippc2014", 10),
        ("advising/3", "AcademicAdvising_MDP_ippc2014", 3),
    ):
        paper = compiled_rate(polinfer.make(name))
        rddl = compiled_rate(polinfer.make(name, semantics="rddl"))
        line = f"{name:13} paper {paper / 1e6:5.2f} M steps/s, rddl {rddl / 1e6:5.2f} M steps/s"
        if compare:
            theirs = simulator_rate(domain, instance)
            line += f", pyRDDLGym {theirs:,.0f} steps/s: {rddl / theirs:,.0f} times"
        print(line, flush=True)


if __name__ == "__main__":
    main()
