"""`evaluate`: what a posterior earns when it acts, by compiled simulation or exactly on a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from polinfer.analysis.simulate import play_episodes
from polinfer.core.display import viewer
from polinfer.core.errors import PolinferError, check_at_least
from polinfer.core.limits import DAY, check_bytes, check_seconds
from polinfer.core.noise import as_uniform, derive_words, seed_words
from polinfer.core.protocol import MDP, HasEndings, State, discounted, invert_cumulative
from polinfer.exact import evaluate_policy, return_distribution
from polinfer.posterior.posterior import Posterior, committed_action, log_policy_function
from polinfer.problems.registry import Problem
from polinfer.problems.tabular.exploration.given import as_problem
from polinfer.problems.tabular.table import TabularMDP
from polinfer.smc.transitions import is_terminal_start, move_by_words, start_from_words

Mode = Literal["stepwise", "thompson"]
Floats = NDArray[np.float64]

_EPISODES_AT_ONCE = 2_000


class Evaluation(NamedTuple):
    """What episodes were worth; every array has a leading seed axis ``[seeds]``."""

    mode: str
    episodes: int  # per seed; 0 where the answer is exact
    mean: Floats
    stderr: Floats  # of the mean, over episodes; zero where exact
    std: Floats
    q05: Floats  # the smallest return with at least 5% at or below it
    q95: Floats
    cvar05: Floats  # the mean of the returns at or below q05
    cvar95: Floats  # the mean of the returns at or above q95
    success: Floats | None  # None where the problem does not tell its endings apart
    endings: dict[str, Floats]
    length: Floats  # mean number of steps
    occupancy: Floats | None  # [seeds, S] mean steps in each state of the table; arrivals where terminal
    returns: NDArray[np.float32] | None  # [seeds, episodes]; None where exact

    def __str__(self) -> str:
        exactly = "exact" if self.episodes == 0 else f"+- {self.stderr.mean():.3f}"
        success = "" if self.success is None else f", success {self.success.mean():.3f}"
        quantiles = f"5% and 95% quantiles {self.q05.mean():.3f} and {self.q95.mean():.3f}"
        return f"return {self.mean.mean():.3f} ({exactly}), {quantiles}{success}"

    def _repr_html_(self) -> str:
        return str(viewer().card(self))


_STEPS_A_SECOND = 1e7
_LONG = 1000  # steps from which on sums of rewards are compensated


def evaluate(
    mdp: Problem,
    posterior: Posterior,
    *,
    episodes: int = 10_000,
    mode: Mode = "stepwise",
    seed: int = 0,
    exactly: bool = False,
) -> Evaluation:
    """Let `posterior` act in `mdp` and report the returns.

    Parameters
    ----------
    mdp
        The problem that the posterior was inferred for.
    posterior
        What `infer` returned.
    episodes
        Episodes per seed.
    mode
        ``stepwise`` draws an action at every step, as the paper executes; ``thompson`` draws one policy per
        episode and commits to it.
    seed
        Of the simulation.
    exactly
        Compute instead of simulating; needs a table, and mode ``stepwise``.

    Examples
    --------
    >>> import polinfer
    >>> mdp = polinfer.make("continuation", rho=0.5)
    >>> posterior = polinfer.infer(mdp, method="exact")
    >>> result = polinfer.evaluate(mdp, posterior, exactly=True)
    >>> result.mean.round(3).tolist()
    [0.845]
    """
    mdp = as_problem(mdp)
    if posterior.mdp is not mdp and posterior.mdp != mdp:
        raise PolinferError(
            "this posterior was inferred for another problem; pass the one it was inferred for"
        )
    if mode not in ("stepwise", "thompson"):
        raise PolinferError(f"mode must be stepwise or thompson, got {mode!r}")
    if exactly:
        if mode != "stepwise":
            raise PolinferError("only mode 'stepwise' can be evaluated exactly; simulate 'thompson'")
        return _evaluate_exactly(posterior)
    check_episodes(posterior, episodes)
    if not isinstance(posterior.mdp, MDP):  # a simulator in plain Python, whatever the answer was found on
        played = [play_episodes(posterior, i, episodes, mode, seed) for i in range(posterior.seeds)]
        least = min(len(part.gained) for part in played)  # a seed may have been asked to stop
        cut = [_Episode(*(field[:least] for field in part)) for part in played]
        return _summarise(posterior, mode, cut, None)
    # Single precision, even in a program that has switched JAX to double.
    with jax.enable_x64(False):
        return _evaluate_by_simulation(posterior, episodes, mode, seed)


def check_episodes(posterior: Posterior, episodes: int) -> None:
    """Refuse a number of episodes that would take too long, or too much memory."""
    check_at_least("episodes", episodes, 1)
    played = float(episodes) * posterior.seeds
    horizon = min(posterior.view.horizon, 10**18)
    at_once = 0.0 if not isinstance(posterior.mdp, MDP) else min(episodes, _EPISODES_AT_ONCE)
    size = 16 * played + 8 * at_once * horizon
    check_bytes(f"{episodes:,} episodes of {horizon:,} steps", size, "choose fewer (--episodes)")
    steps = played * horizon
    check_seconds(f"{episodes:,} episodes", steps / _STEPS_A_SECOND, "choose fewer (--episodes)", DAY)


class _Episode(NamedTuple):
    gained: Any  # []
    length: Any  # [] int32
    ending: Any  # [] int32, -1 where the episode was cut off


def _simulate(
    view: MDP, mode: Mode, log_policy: Callable[[State], Array], drawn: Array | None, words: Array
) -> tuple[_Episode, Array]:
    policy_words, start_words, action_words, move_words = (
        derive_words(words, jnp.asarray(use)) for use in range(4)
    )

    def step(carry: tuple[State, Array, Array, Array, Array], t: Array) -> Any:
        state, over, gained, lost, length = carry
        probs = jnp.exp(log_policy(state))
        if mode == "thompson":
            action = committed_action(view, drawn, policy_words, state, probs)
        else:
            action = invert_cumulative(as_uniform(derive_words(action_words, t)), probs)
        moved = move_by_words(view, derive_words(move_words, t), state, action)
        paid = discounted(view, jnp.where(over, 0.0, moved.reward), t)
        if view.horizon > _LONG:
            # Compensated (Kahan, 1965): a hundred thousand small rewards do not drown in their sum.
            exactly = paid - lost
            total = gained + exactly
            lost = (total - gained) - exactly
        else:
            total = gained + paid
        after = (
            jax.tree.map(lambda old, new: jnp.where(over, old, new), state, moved.state),
            over | moved.terminated,
            total,
            lost,
            length + (~over).astype(jnp.int32),
        )
        return after, (state, over)

    start = start_from_words(view, start_words)
    nothing = jnp.zeros((), jnp.float32)
    zero = (is_terminal_start(view, start), nothing, nothing, jnp.zeros((), jnp.int32))
    (last, over, gained, _, length), visits = jax.lax.scan(step, (start, *zero), jnp.arange(view.horizon))
    ending = view.ending(last) if isinstance(view, HasEndings) else jnp.asarray(-1, jnp.int32)
    counted = jnp.zeros(0)
    if isinstance(view, TabularMDP):
        states, was_over = visits
        weight = discounted(view, jnp.where(was_over, 0.0, 1.0), jnp.arange(view.horizon))
        counted = jnp.zeros(view.num_states).at[states].add(weight)
        counted = counted.at[last].add(over.astype(jnp.float32))
    return _Episode(gained, length, jnp.where(over, ending, -1)), counted


@lru_cache(maxsize=16)
def _make_simulator(view: MDP, mode: Mode, batches: int, size: int) -> Callable[..., Any]:
    """Compile episodes in `view`; posteriors of one problem share them."""

    @jax.jit
    def run(proposal: Any, drawn: Array | None, words: Array) -> tuple[_Episode, Array]:
        log_policy = log_policy_function(view, proposal)
        simulate = jax.vmap(partial(_simulate, view, mode, log_policy, drawn))

        def batch(counts: Array, number: Array) -> tuple[Array, _Episode]:
            own = jax.vmap(lambda i: derive_words(words, number, i))(jnp.arange(size))
            seen, counted = simulate(own)
            return counts + counted.sum(axis=0), seen

        width = view.num_states if isinstance(view, TabularMDP) else 0
        counts, seen = jax.lax.scan(batch, jnp.zeros(width), jnp.arange(batches))
        return jax.tree.map(lambda x: x.reshape(-1), seen), counts

    return run


def _evaluate_by_simulation(posterior: Posterior, episodes: int, mode: Mode, seed: int) -> Evaluation:
    batches = -(-episodes // _EPISODES_AT_ONCE)
    size = -(-episodes // batches)
    run = _make_simulator(posterior.view, mode, batches, size)
    drawn = posterior.drawn_policies if mode == "thompson" else None
    base = seed_words(jnp.asarray(seed % 2**32, jnp.uint32))
    # One seed after another: a seed's episodes fill the machine, and memory stays that of one.
    parts = [
        jax.tree.map(
            np.asarray,
            run(
                jax.tree.map(lambda leaf, i=i: leaf[i], posterior.proposal),
                drawn,
                derive_words(base, jnp.asarray(i)),
            ),
        )
        for i in range(posterior.seeds)
    ]
    total = batches * size
    seen = [_Episode(*(field[:episodes] for field in part[0])) for part in parts]
    tables = isinstance(posterior.view, TabularMDP)
    occupancy = np.stack([part[1] / total for part in parts]).astype(np.float64) if tables else None
    return _summarise(posterior, mode, seen, occupancy)


def _summarise(
    posterior: Posterior, mode: Mode, seen: list[_Episode], occupancy: Floats | None
) -> Evaluation:
    """Sum up the episodes of each seed."""
    returns = np.stack([part.gained for part in seen])
    episodes = returns.shape[1]
    if not np.isfinite(returns).all():
        raise PolinferError("an episode's return is not a finite number; check the simulator's rewards")
    ending = np.stack([part.ending for part in seen])
    problem: Any = posterior.view if isinstance(posterior.mdp, MDP) else posterior.mdp
    names = problem.endings if isinstance(problem, HasEndings) else ()
    shares = {e.name: (ending == i).mean(axis=1) for i, e in enumerate(names)}
    return Evaluation(
        mode=mode,
        episodes=episodes,
        mean=returns.mean(axis=1, dtype=np.float64),
        stderr=returns.std(axis=1, dtype=np.float64) / np.sqrt(episodes),
        std=returns.std(axis=1, dtype=np.float64),
        **_tails(merge_returns(returns)),
        success=_success(names, shares),
        endings=shares,
        length=np.stack([part.length for part in seen]).mean(axis=1, dtype=np.float64),
        occupancy=occupancy,
        returns=returns,
    )


def merge_returns(returns: NDArray[np.floating]) -> Floats:
    """Make returns equal that differ only by rounding.

    Sums in single precision of the same rewards in another order are one return, not two.
    """
    largest = float(np.abs(returns).max(initial=0.0))
    decimals = 5 - int(np.ceil(np.log10(largest))) if largest > 0 else 0
    return np.asarray(np.round(returns.astype(np.float64), decimals), np.float64)


def _tails(returns: Floats) -> dict[str, Floats]:
    low = np.quantile(returns, 0.05, axis=1, method="inverted_cdf")
    high = np.quantile(returns, 0.95, axis=1, method="inverted_cdf")
    return {
        "q05": low,
        "q95": high,
        "cvar05": np.array([row[row <= q].mean() for row, q in zip(returns, low, strict=True)]),
        "cvar95": np.array([row[row >= q].mean() for row, q in zip(returns, high, strict=True)]),
    }


def _success(names: tuple[Any, ...], shares: dict[str, Floats]) -> Floats | None:
    if not names:
        return None
    won = [shares[ending.name] for ending in names if ending.success]
    return np.sum(won, axis=0) if won else np.zeros_like(next(iter(shares.values())))


def _evaluate_exactly(posterior: Posterior) -> Evaluation:
    table, probs = posterior.view, posterior.table_probs()
    if probs is None or not isinstance(table, TabularMDP):
        raise PolinferError("exact evaluation needs a problem that fits a table; leave out exactly=True")
    rows = probs.astype(np.float64)
    rows /= rows.sum(axis=-1, keepdims=True)
    values = [evaluate_policy(table, row) for row in rows]
    distributions = [return_distribution(table, row) for row in rows]
    nothing = (float("nan"),) * 4
    tails = np.array([nothing if d is None else d.summary()[2:] for d in distributions], np.float64)
    names = table.endings
    shares = {e.name: np.array([v.endings[e.name] for v in values]) for e in names}
    return Evaluation(
        mode="stepwise",
        episodes=0,
        mean=np.array([v.expected_return for v in values]),
        stderr=np.zeros(len(values)),
        std=np.array([v.std for v in values]),
        q05=tails[:, 0],
        q95=tails[:, 1],
        cvar05=tails[:, 2],
        cvar95=tails[:, 3],
        success=_success(names, shares),
        endings=shares,
        length=np.array([v.length for v in values]),
        occupancy=np.stack([v.occupancy for v in values]),
        returns=None,
    )
