"""Reading the arrays that describe a table into one list of outcomes.

Dense ``[S, A, S]`` arrays, sequences of sparse ``[S, S]`` matrices and explicit rows all become
`OutcomeRows`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from polinfer.core.errors import TableError, is_whole, suggest

_MOST_NAMES = 1 << 30  # bytes


class OutcomeRows(NamedTuple):
    """Outcomes, one per row: state, action, successor, probability, reward.

    Two rows may share state, action and successor, which makes the reward random.
    """

    state: NDArray[np.int64]  # [n]
    action: NDArray[np.int64]  # [n]
    successor: NDArray[np.int64]  # [n]
    probability: NDArray[np.float64]  # [n]
    reward: NDArray[np.float64]  # [n]


def as_floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as a float64 array, or say which name holds something else."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise ValueError
        return array.astype(np.float64)
    except (ValueError, TypeError):
        raise TableError(f"{name} must be a rectangular array of numbers") from None


def rows_from_arrays(transitions: Any, rewards: Any) -> tuple[OutcomeRows, int, int]:
    """Return the rows of `transitions` and `rewards`, the number of states and the number of actions.

    Anything but rectangular arrays and sparse matrices is refused.
    """
    if _is_sparse_sequence(transitions):
        return _rows_from_sparse(transitions, rewards)
    dense = as_floats("transitions", transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise TableError(f"transitions must have shape [S, A, S], got {list(dense.shape)}")
    states, actions = dense.shape[:2]
    # A NaN counts as an entry, so that the check of probabilities can name its place.
    state, action, successor = np.nonzero(dense)
    reward = _pick_rewards(rewards, state, action, successor, states, actions)
    return OutcomeRows(state, action, successor, dense[state, action, successor], reward), states, actions


def _is_sparse_sequence(values: Any) -> bool:
    return isinstance(values, Sequence) and len(values) > 0 and all(scipy.sparse.issparse(m) for m in values)


def _rows_from_sparse(matrices: Sequence[Any], rewards: Any) -> tuple[OutcomeRows, int, int]:
    states, actions = matrices[0].shape[0], len(matrices)
    parts = []
    for action, matrix in enumerate(matrices):
        if matrix.shape != (states, states):
            raise TableError(
                f"transitions of action {action} must have shape {[states, states]}, got {list(matrix.shape)}"
            )
        coo = matrix.tocoo()
        parts.append((coo.row, np.full(coo.nnz, action), coo.col, coo.data.astype(np.float64)))
    state, action_, successor, probability = (np.concatenate([part[i] for part in parts]) for i in range(4))
    keep = probability != 0
    state, action_, successor = state[keep], action_[keep], successor[keep]
    reward = _pick_rewards(rewards, state, action_, successor, states, actions)
    return OutcomeRows(state, action_, successor, probability[keep], reward), states, actions


def _pick_rewards(
    rewards: Any,
    state: NDArray[np.int64],
    action: NDArray[np.int64],
    successor: NDArray[np.int64],
    states: int,
    actions: int,
) -> NDArray[np.float64]:
    if _is_sparse_sequence(rewards):
        if len(rewards) != actions or any(m.shape != (states, states) for m in rewards):
            raise TableError(f"sparse rewards must be {actions} matrices of shape {[states, states]}")
        picked = np.empty(len(state), np.float64)
        for index, matrix in enumerate(rewards):
            here = action == index
            picked[here] = np.asarray(matrix.tocsr()[state[here], successor[here]]).ravel()
        return picked
    dense = as_floats("rewards", rewards)
    if dense.shape == (states, actions):
        return np.asarray(dense[state, action])
    if dense.shape == (states, actions, states):
        return np.asarray(dense[state, action, successor])
    raise TableError(
        f"rewards must have shape [S, A] = {[states, actions]} or [S, A, S] = {[states, actions, states]}, "
        f"got {list(dense.shape)}"
    )


def resolve_names(name: str, names: Sequence[Any] | None, count: int) -> tuple[str, ...] | None:
    """Check that `names` are `count` different strings."""
    if names is None:
        return None
    # A string is a sequence of letters, too.
    if isinstance(names, str | bytes | dict) or not hasattr(names, "__iter__"):
        raise TableError(f"{name} must be a list of names")
    given = tuple(str(n) for n in names)
    if any("\0" in n for n in given):
        raise TableError(f"{name} holds a NUL character, which files do not keep")
    if len(given) != count:
        raise TableError(f"{name} must hold {count} names, got {len(given)}")
    if len(set(given)) != count:
        twice = next(n for n, times in Counter(given).items() if times > 1)
        raise TableError(f"{name} holds {twice!r} twice; names must differ")
    longest = max(map(len, given), default=0)
    # As files hold them: all as long as the longest, four bytes a letter.
    if 4 * longest * count > _MOST_NAMES:
        raise TableError(f"{name} holds {count:,} names, one of {longest:,} letters; give shorter ones")
    return given


def numbered(names: Sequence[str] | None) -> dict[str, int]:
    """Return the number of each name: looking through a list of them for each of many takes minutes."""
    return {name: number for number, name in enumerate(names or ())}


def resolve_index(what: str, value: Any, count: int, numbers: Mapping[str, int]) -> int:
    """Turn an index or a name, one of those that are `numbered`, into an index."""
    if isinstance(value, str):
        if value in numbers:
            return numbers[value]
        raise TableError(f"unknown {what} name {value!r}{suggest(value, numbers)}")
    if not is_whole(value):
        raise TableError(f"{what} must be an index or a name, got {value!r}")
    if not 0 <= int(value) < count:
        raise TableError(f"{what} {int(value)} is outside 0..{count - 1}")
    return int(value)


def resolve_states(name: str, values: Any, count: int, names: tuple[str, ...] | None) -> NDArray[np.bool_]:
    """Turn a mask, indices or names into a mask ``[S]``."""
    if values is None:
        return np.zeros(count, np.bool_)
    try:
        array = np.asarray(values)
    except ValueError:
        raise TableError(f"{name} must be a list of true/false, of state indices or of state names") from None
    if array.dtype == np.bool_:
        if array.shape != (count,):
            raise TableError(f"{name} must have one entry per state, [{count}], got {list(array.shape)}")
        return array.copy()
    mask = np.zeros(count, np.bool_)
    if array.shape == (0,):
        return mask
    if array.ndim != 1 or array.dtype.kind not in "iufUO":
        raise TableError(f"{name} must be a list of true/false, of state indices or of state names")
    numbers = numbered(names)
    for value in array.tolist():
        index = resolve_index(f"state in {name}", value, count, numbers)
        if mask[index]:
            raise TableError(
                f"{name} lists state {index} twice; for a mask write true and false instead of 1 and 0"
            )
        mask[index] = True
    if count == 2 and array.dtype.kind in "iuf" and mask.all():
        raise TableError(
            f"{name} may be a mask or the list of both states; write true and false instead of 1 and 0, or "
            "names"
        )
    return mask


def resolve_initial(values: Any, count: int, names: tuple[str, ...] | None) -> NDArray[np.float64]:
    """Turn a distribution, an index or a name into a distribution ``[S]``."""
    if isinstance(values, str | dict) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0:
        value = values.item() if isinstance(values, np.ndarray) else values
        chosen = np.zeros(count, np.float64)
        chosen[resolve_index("state in initial", value, count, numbered(names))] = 1.0
        return chosen
    array = as_floats("initial", values)
    if array.shape != (count,):
        raise TableError(f"initial must have one probability per state, [{count}], got {list(array.shape)}")
    if not (np.isfinite(array) & (array >= 0)).all():
        wrong = int(np.argmin(np.isfinite(array) & (array >= 0)))
        label = names[wrong] if names else str(wrong)
        raise TableError(f"initial must be probabilities, got {array[wrong]:.6g} for state {label!r}")
    if abs(array.sum() - 1) > 1e-6:
        raise TableError(f"initial must be probabilities that sum to one, got a sum of {array.sum():.6g}")
    return array if abs(array.sum() - 1) < 1e-12 else array / array.sum()
