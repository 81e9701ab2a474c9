"""`check_mdp`: whether an MDP satisfies the protocol that engines rely on.

Run it on your own MDP before planning with it.  Every failure is a `ConformanceError` whose sentence says
what to change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from polinfer.core.errors import ConformanceError, check_at_least
from polinfer.core.protocol import MDP, EnumerableMDP, HasEndings, HasNames, State, Transition


class Conformance(NamedTuple):
    """Counts of what `check_mdp` simulated."""

    episodes: int
    steps: int
    distinct_states: int
    terminated: int  # episodes that reached a terminal state


def check_mdp(mdp: MDP, *, episodes: int = 64, seed: int = 0) -> Conformance:
    """Check the `MDP` protocol along random episodes.

    Checked are shapes and types, purity (equal key, equal outcome), that it runs under `jit` and `vmap`,
    that terminal states are absorbing and earn nothing, that identities are equal iff the states are, that
    some action is always legal, that numbers are finite, and, where the MDP lists its outcomes, that they are
    probabilities and agree with what `step` does.

    Raises
    ------
    ConformanceError
        With one sentence of advice.

    Examples
    --------
    >>> import polinfer
    >>> from polinfer.testing import check_mdp
    >>> check_mdp(polinfer.make("gridworld/multimodal")).distinct_states
    16
    """
    check_at_least("episodes", episodes, 1)
    check_shapes(mdp)
    trace = _random_episodes(mdp, episodes, seed)
    _check_numbers(mdp, trace)
    _check_purity(mdp, trace)
    _check_absorbing(mdp, trace)
    distinct = _check_identity(trace)
    _check_names_and_endings(mdp, trace)
    if isinstance(mdp, EnumerableMDP):
        _check_outcomes(mdp, trace)
    return Conformance(
        episodes=episodes,
        steps=int((~trace.was_over).sum()),
        distinct_states=distinct,
        terminated=int(trace.terminated[:, -1].sum()),
    )


class _Trace(NamedTuple):
    """Random episodes on the host; axes are episode and step."""

    key: Any  # [E, H] keys
    state: State  # [E, H, ...] before the step
    action: np.ndarray[Any, Any]  # [E, H]
    reached: State  # [E, H, ...]
    reward: np.ndarray[Any, Any]  # [E, H]
    terminated: np.ndarray[Any, Any]  # [E, H]
    was_over: np.ndarray[Any, Any]  # [E, H], the episode had ended before this step
    legal: np.ndarray[Any, Any]  # [E, H, A]
    identity: np.ndarray[Any, Any]  # [E, H, K]
    features: np.ndarray[Any, Any]  # [E, H, F]


def _fail(advice: str) -> ConformanceError:
    return ConformanceError(advice)


def check_shapes(mdp: MDP) -> None:
    """Check attributes, shapes and types, without simulating.

    Engines call this first, because its messages are clearer than those of a failure in a compiled loop.
    """
    _check_attributes(mdp)
    _check_methods(mdp)


def _check_attributes(mdp: MDP) -> None:
    for name in ("num_actions", "horizon", "init", "step", "encode", "identity", "legal"):
        if not hasattr(mdp, name):
            raise _fail(
                f"{type(mdp).__name__} has no {name!r}; add it (see polinfer.MDP), or, if it is a simulator "
                "in plain Python, plan with it as it is (see polinfer.smc.Simulator)"
            )
    try:
        hash(mdp)
    except TypeError:
        raise _fail(
            f"{type(mdp).__name__} is not hashable; make it a plain class or a frozen dataclass"
        ) from None
    for name in ("num_actions", "horizon"):
        value = getattr(mdp, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise _fail(f"{name} must be an int of at least 1, got {value!r}")


def _spec(what: str, function: Any, *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except jax.errors.JAXTypeError as error:
        raise _fail(
            f"{what} cannot be traced by jax.jit; use jnp.where instead of if, and no int() or bool() of "
            f"arrays ({type(error).__name__})"
        ) from error
    except Exception as error:
        raise _fail(f"{what} failed while being traced: {' '.join(str(error).split())[:200]}") from error


def _check_methods(mdp: MDP) -> None:
    key = jax.random.key(0)
    action = jnp.zeros((), jnp.int32)
    state = _spec("init(key)", mdp.init, key)
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise _fail("the state holds a random key; noise is a value: take it from step's key")
    moved = _spec("step(key, state, action)", mdp.step, key, state, action)
    if not isinstance(moved, Transition):
        raise _fail(f"step must return a polinfer.Transition, got {type(moved).__name__}")
    structures = [str(jax.tree.structure(tree)) for tree in (moved.state, state)]
    same = structures[0] == structures[1] and all(
        (a.shape, a.dtype) == (b.shape, b.dtype)
        for a, b in zip(jax.tree.leaves(moved.state), jax.tree.leaves(state), strict=True)
    )
    if not same:
        raise _fail(f"step must return a state like init's, {_describe(state)}, got {_describe(moved.state)}")
    if (
        not _is_array(moved.reward)
        or moved.reward.shape != ()
        or not jnp.issubdtype(moved.reward.dtype, jnp.floating)
    ):
        raise _fail(f"step's reward must be a float scalar, got {_describe(moved.reward)}")
    if not _is_array(moved.terminated) or moved.terminated.shape != () or moved.terminated.dtype != jnp.bool_:
        raise _fail(f"step's terminated must be a bool scalar, got {_describe(moved.terminated)}")
    for name, rank, dtype in (("encode", 1, jnp.float32), ("identity", 1, jnp.int32)):
        got = _spec(f"{name}(state)", getattr(mdp, name), state)
        if not _is_array(got) or len(got.shape) != rank or got.dtype != dtype:
            raise _fail(f"{name} must return a {jnp.dtype(dtype).name} vector, got {_describe(got)}")
    legal = _spec("legal(state)", mdp.legal, state)
    if not _is_array(legal) or legal.shape != (mdp.num_actions,) or legal.dtype != jnp.bool_:
        raise _fail(f"legal must return bool [{mdp.num_actions}], one per action, got {_describe(legal)}")


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _describe(tree: Any) -> str:
    parts = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(tree)]
    return parts[0] if len(parts) == 1 else "(" + ", ".join(parts) + ")"


def _random_episodes(mdp: MDP, episodes: int, seed: int) -> _Trace:
    def episode(key: Array) -> Any:
        key_init, key_steps = jax.random.split(key)

        def step(carry: Any, key_step: Array) -> Any:
            state, over = carry
            key_action, key_move = jax.random.split(key_step)
            legal = mdp.legal(state)
            # Where nothing is legal any action is taken; a later check reports it.
            logits = jnp.where(legal | ~legal.any(), 0.0, -jnp.inf)
            action = jax.random.categorical(key_action, logits).astype(jnp.int32)
            moved = mdp.step(key_move, state, action)
            seen = (key_move, state, action, moved, over, legal, mdp.identity(state), mdp.encode(state))
            return (moved.state, over | moved.terminated), seen

        start = (mdp.init(key_init), jnp.asarray(False))
        # Two steps beyond the horizon: the MDP itself must not count steps.
        return jax.lax.scan(step, start, jax.random.split(key_steps, mdp.horizon + 2))[1]

    keys = jax.random.split(jax.random.key(seed), episodes)
    try:
        seen = jax.jit(jax.vmap(episode))(keys)
    except Exception as error:
        raise _fail(
            f"random episodes failed under jit and vmap: {' '.join(str(error).split())[:200]}"
        ) from error
    key_move, *rest = seen
    state, action, moved, over, legal, identity, features = jax.tree.map(np.asarray, rest)
    return _Trace(
        key_move, state, action, moved.state, moved.reward, moved.terminated, over, legal, identity, features
    )


def _check_numbers(mdp: MDP, trace: _Trace) -> None:
    if not np.isfinite(trace.reward).all():
        raise _fail(f"a reward is {trace.reward[~np.isfinite(trace.reward)][0]}; rewards must be finite")
    if not np.isfinite(trace.features).all():
        raise _fail("encode returns a number that is not finite; scale or clip it")
    if not trace.legal[~trace.was_over].any(axis=-1).all():
        raise _fail("some reachable state has no legal action; allow one, or make the state terminal")


def _flat_keys(trace: _Trace) -> Array:
    flat: Array = trace.key.reshape(-1)
    return flat


def _flat(tree: Any) -> Any:
    return jax.tree.map(lambda x: x.reshape((-1, *x.shape[2:])), tree)


def _check_purity(mdp: MDP, trace: _Trace) -> None:
    """Trace every method once more: equal arguments must give equal answers."""

    def again(key: Array, state: State, action: Array) -> Any:
        return mdp.step(key, state, action), mdp.legal(state), mdp.identity(state), mdp.encode(state)

    seen = jax.jit(jax.vmap(again))(_flat_keys(trace), _flat(trace.state), _flat(trace.action))
    moved, *told = jax.tree.map(np.asarray, seen)
    before = _flat((trace.reached, trace.reward, trace.terminated))
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(moved), strict=True):
        # Two programs may differ in the last digit of a reward, never in a state.
        if not _close(old, new).all():
            raise _fail(
                "step gives another outcome for an equal key, state and action; draw all noise from the key"
            )
    for name, old, new in zip(
        ("legal", "identity", "encode"), (trace.legal, trace.identity, trace.features), told, strict=True
    ):
        if not _close(_flat(old), new).all():
            raise _fail(f"{name} gives another answer for an equal state; it must depend on the state alone")
    key = jax.random.key(0)
    one, other = (jax.tree.leaves(jax.tree.map(np.asarray, mdp.init(key))) for _ in range(2))
    if not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)):
        raise _fail("init gives another state for an equal key; draw all noise from the key")


def _close(old: Any, new: Any) -> Any:
    if np.issubdtype(old.dtype, np.floating):
        return np.isclose(old, new, rtol=1e-5, atol=1e-6, equal_nan=True)
    return old == new


def _check_absorbing(mdp: MDP, trace: _Trace) -> None:
    over = trace.was_over
    if (trace.reward[over] != 0).any():
        raise _fail(
            "a terminal state earns a reward; pay on the transition that enters it, and nothing after"
        )
    if not trace.terminated[over].all():
        raise _fail("a step from a terminal state is not terminated; terminal states absorb")
    for before, after in zip(jax.tree.leaves(trace.state), jax.tree.leaves(trace.reached), strict=True):
        if not np.array_equal(before[over], after[over]):
            raise _fail("a terminal state changes when stepped from; return it unchanged")


def _check_identity(trace: _Trace) -> int:
    identities = trace.identity.reshape(-1, trace.identity.shape[-1])
    leaves = [np.asarray(x) for x in jax.tree.leaves(_flat(trace.state))]
    states = [tuple(leaf[i].tobytes() for leaf in leaves) for i in range(len(identities))]
    names = [row.tobytes() for row in identities]
    if len(set(zip(names, states, strict=True))) > len(set(names)):
        raise _fail(
            "two different states have the same identity; put all that tells states apart into identity"
        )
    if len(set(zip(names, states, strict=True))) > len(set(states)):
        raise _fail("one state has two identities; identity must depend on the state alone")
    return len(set(names))


def _check_names_and_endings(mdp: MDP, trace: _Trace) -> None:
    if isinstance(mdp, HasNames):
        if len(mdp.action_names) != mdp.num_actions:
            raise _fail(f"action_names must hold {mdp.num_actions} names, got {len(mdp.action_names)}")
        name = mdp.state_name(jax.tree.map(lambda x: x[0, 0], trace.state))
        if not isinstance(name, str):
            raise _fail(f"state_name must return a str, got {type(name).__name__}")
    if isinstance(mdp, HasEndings):
        ending = np.asarray(jax.jit(jax.vmap(mdp.ending))(_flat(trace.state)))
        if ((ending < -1) | (ending >= len(mdp.endings))).any():
            raise _fail(f"ending must return -1 or an index of the {len(mdp.endings)} endings")
        going = ~trace.was_over.reshape(-1)
        if (ending[going] >= 0).any():
            raise _fail("ending must return -1 where the episode goes on")


def _check_outcomes(mdp: EnumerableMDP, trace: _Trace) -> None:
    starts = mdp.starts()
    total = float(starts.probability.sum())
    if not (np.asarray(starts.probability) >= 0).all():
        raise _fail("starts' probabilities must be at least zero")
    first = [x[:, 0] for x in jax.tree.leaves(trace.state)]
    there = np.asarray(starts.probability)[None] > 0
    for one, many in zip(first, jax.tree.leaves(starts.state), strict=True):
        same = np.asarray(one[:, None] == np.asarray(many)[None])
        there = there & same.reshape(*same.shape[:2], -1).all(axis=-1)
    if abs(total - 1) <= 1e-5 and not there.any(axis=-1).all():
        raise _fail("init drew a state that starts does not list")
    if abs(total - 1) > 1e-5:
        raise _fail(f"starts' probabilities sum to {total:.6g}, not to one")
    one_state = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), trace.state)
    shape = _spec("outcomes(state, action)", mdp.outcomes, one_state, jnp.zeros((), jnp.int32))
    if str(jax.tree.structure(shape.transition.state)) != str(jax.tree.structure(one_state)):
        raise _fail("outcomes lists states unlike those of step")
    listed = jax.tree.map(
        np.asarray, jax.jit(jax.vmap(mdp.outcomes))(_flat(trace.state), _flat(trace.action))
    )
    active = ~trace.was_over.reshape(-1)
    probability = listed.probability[active]
    if (probability < 0).any() or (abs(probability.sum(axis=-1) - 1) > 1e-5).any():
        raise _fail("outcomes' probabilities must be at least zero and sum to one")
    # What step drew must be one of the outcomes that are listed for it.
    found = probability > 0
    drawn = (trace.reached, trace.reward, trace.terminated)
    for one, many in zip(jax.tree.leaves(_flat(drawn)), jax.tree.leaves(listed.transition), strict=True):
        close = _close(one[active][:, None], many[active])
        found &= close.reshape(*close.shape[:2], -1).all(axis=-1)
    if not found.any(axis=-1).all():
        raise _fail("step drew something that outcomes does not list; the two must describe the same MDP")
    # One drawn slot against its probability: z is standard normal if the odds agree.
    hit = np.where(found, probability, 0.0).sum(axis=-1)
    expected = (probability**2).sum(axis=-1)
    unique = found.sum(axis=-1) == 1
    hit, expected, p = hit[unique], expected[unique], probability[unique]
    spread = (p**3).sum(axis=-1) - expected**2
    if len(hit) and abs((hit - expected).sum()) > 6 * np.sqrt(max(spread.sum(), 1e-12)) + 1e-3:
        raise _fail("step draws by other odds than outcomes lists; the two must describe the same MDP")
