"""Checking what describes a table, and laying its outcomes out as ``[S, A, B]`` arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polinfer.core.errors import TableError
from polinfer.core.protocol import Ending
from polinfer.problems.tabular.rows import OutcomeRows, resolve_states

MOST_REWARD = 1e100
"""The largest size of a reward: with larger ones, returns and their squares overflow."""
SUCCESS_OR_FAILURE = (Ending("failure", False), Ending("success", True))


def check_legal(
    legal: ArrayLike | None,
    num_states: int,
    num_actions: int,
    absorbing: NDArray[np.bool_],
    labels: tuple[str, ...],
) -> NDArray[np.bool_]:
    """Return the legal actions ``[S, A]``, all of them by default; refuse a state that has none."""
    if legal is None:
        return np.ones((num_states, num_actions), np.bool_)
    try:
        mask = np.asarray(legal)
    except ValueError:
        mask = np.asarray(None)
    if mask.shape != (num_states, num_actions) or mask.dtype != np.bool_:
        raise TableError(
            f"legal must be true/false of shape [S, A] = {[num_states, num_actions]}, "
            f"got {mask.dtype} of shape {list(mask.shape)}"
        )
    mask = mask.copy()
    # The legal actions of terminal states have no effect; engines need at least one.
    mask[absorbing & ~mask.any(axis=1)] = True
    empty = ~mask.any(axis=1)
    if empty.any():
        raise TableError(f"state {labels[int(np.argmax(empty))]!r} has no legal action; allow at least one")
    return mask


def check_draws(
    draws: NDArray[np.integer[Any]] | None, legal: NDArray[np.bool_], absorbing: NDArray[np.bool_]
) -> NDArray[np.int32] | None:
    """Return how many draws each pair ``[S, A]`` is estimated from; None where all is exact."""
    if draws is None:
        return None
    given = np.asarray(draws)
    if given.shape != legal.shape or given.dtype.kind not in "iu" or (given < 0).any():
        raise TableError(f"draws must be whole numbers of at least 0 of shape [S, A] = {list(legal.shape)}")
    used = np.where(legal & ~absorbing[:, None], given, 0).astype(np.int32)
    return used if used.any() else None


def endings_from_success(
    success: ArrayLike | None,
    absorbing: NDArray[np.bool_],
    names: tuple[str, ...] | None,
    labels: tuple[str, ...],
) -> tuple[tuple[Ending, ...], NDArray[np.int32]]:
    """Return the endings that a mask of successes means, and the ending of each state ``[S]``."""
    if success is None:
        return (), np.full(len(absorbing), -1, np.int32)
    mask = resolve_states("success", success, len(absorbing), names)
    wrong = mask & ~absorbing
    if wrong.any():
        raise TableError(
            f"state {labels[int(np.argmax(wrong))]!r} is marked as success but is not absorbing; "
            "mark it as absorbing too"
        )
    return SUCCESS_OR_FAILURE, np.where(absorbing, mask.astype(np.int32), -1).astype(np.int32)


def lay_out(
    rows: OutcomeRows,
    absorbing: NDArray[np.bool_],
    legal: NDArray[np.bool_],
    fail: Callable[[int, int, str], TableError],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Check `rows` and lay them out as ``[S, A, B]``."""
    num_states, num_actions = legal.shape
    for what, index, count in (
        ("state", rows.state, num_states),
        ("action", rows.action, num_actions),
        ("successor", rows.successor, num_states),
    ):
        outside = (index < 0) | (index >= count)
        if outside.any():
            raise TableError(f"{what} {index[outside][0]} of an outcome is outside 0..{count - 1}")

    def refuse(where: NDArray[np.bool_], what: Any) -> None:
        if where.any():
            row = int(np.argmax(where))
            raise fail(int(rows.state[row]), int(rows.action[row]), what(row))

    used = legal[rows.state, rows.action]
    finite = np.isfinite(rows.probability)
    refuse(used & ~finite, lambda i: f"probability is {rows.probability[i]}, write a number")
    refuse(
        used & ((rows.probability < 0) | (rows.probability > 1 + 1e-6)),
        lambda i: f"probability is {rows.probability[i]:.6g}, outside 0..1",
    )
    used &= rows.probability > 0
    refuse(used & ~np.isfinite(rows.reward), lambda i: f"reward is {rows.reward[i]}, write a number")
    refuse(
        used & (np.abs(np.where(used, rows.reward, 0.0)) > MOST_REWARD),
        lambda i: f"reward is {rows.reward[i]:.6g}, beyond {MOST_REWARD:g}: sums of such numbers overflow",
    )
    at_end = used & absorbing[rows.state]
    refuse(
        at_end & (rows.successor != rows.state),
        lambda i: "the state is absorbing but this action leaves it; drop it from absorbing or the row",
    )
    refuse(
        at_end & (rows.reward != 0),
        lambda i: (
            f"the state is absorbing but earns {rows.reward[i]:.6g} here; "
            "absorbing states earn nothing: pay on the transition that enters it"
        ),
    )
    used &= ~absorbing[rows.state]

    pair = rows.state[used] * num_actions + rows.action[used]
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    total = np.bincount(pair, rows.probability[used][order], minlength=num_states * num_actions)
    needed = (legal & ~absorbing[:, None]).ravel()
    off = needed & (np.abs(total - 1) > 1e-6)
    if off.any():
        first = int(np.argmax(off))
        raise fail(
            first // num_actions,
            first % num_actions,
            f"probabilities sum to {total[first]:.6g}, not to one"
            + (
                "; mark the action illegal or the state absorbing if nothing happens"
                if total[first] == 0
                else ""
            ),
        )
    count = np.bincount(pair, minlength=num_states * num_actions)
    width = max(1, int(count.max(initial=0)))
    slot = np.arange(len(pair)) - (np.cumsum(count) - count)[pair]
    shape = (num_states * num_actions, width)
    # Rows without outcomes (illegal actions, terminal states) stay where they are and earn nothing.
    successor = np.repeat(np.arange(num_states, dtype=np.int32), num_actions)[:, None] * np.ones(
        width, np.int32
    )
    probability = np.zeros(shape)
    probability[~needed, 0] = 1.0
    reward = np.zeros(shape)
    successor[pair, slot] = rows.successor[used][order]
    # Rows that were stored in single precision sum to one only nearly.
    scale = np.where(np.abs(total - 1) < 1e-12, 1.0, total)
    probability[pair, slot] = rows.probability[used][order] / scale[pair]
    reward[pair, slot] = rows.reward[used][order]
    full = (num_states, num_actions, width)
    return successor.astype(np.int32).reshape(full), probability.reshape(full), reward.reshape(full)
