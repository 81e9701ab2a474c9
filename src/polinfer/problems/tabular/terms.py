"""A table's own terms: the reference measure and the discount, checked where they enter."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polinfer.core.errors import TableError, check_at_least, is_number
from polinfer.problems.tabular.rows import as_floats

LEFT_OVER = 1e-6
"""The share of the largest return that the horizon of a problem without one may leave out."""

_ROUNDING = 1e-6


def check_discount(discount: float) -> float:
    """Return a discount in ``(0, 1]``; refuse anything else.

    Examples
    --------
    >>> check_discount(0.9)
    0.9
    >>> check_discount(0)
    Traceback (most recent call last):
        ...
    polinfer.core.errors.TableError: discount must be above 0 and at most 1, got 0
    """
    value = discount.item() if isinstance(discount, np.ndarray) and discount.ndim == 0 else discount
    if not is_number(value) or not 0 < value <= 1:
        raise TableError(f"discount must be above 0 and at most 1, got {value!r}")
    return float(value)


def check_horizon(horizon: int | None, discount: float) -> int:
    """Return the horizon; without one, the least that leaves out less than `LEFT_OVER` of a return.

    Examples
    --------
    >>> check_horizon(20, 1.0), check_horizon(None, 0.9)
    (20, 132)
    """
    if horizon is not None:
        return check_at_least("horizon", horizon, 1)
    if discount == 1:
        raise TableError(
            "horizon must be given, the largest number of steps in an episode; only with a discount below 1 "
            "may there be none"
        )
    return math.ceil(math.log(LEFT_OVER) / math.log(discount))


def uniform_prior(legal: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the uniform reference measure ``[S, A]`` over the legal actions."""
    return np.asarray(legal / legal.sum(axis=1, keepdims=True))


def check_prior(
    prior: ArrayLike | None,
    legal: NDArray[np.bool_],
    absorbing: NDArray[np.bool_],
    state_names: tuple[str, ...],
    action_names: tuple[str, ...],
) -> NDArray[np.float64]:
    """Return the reference measure ``[S, A]``, uniform by default; terminal states have the uniform one."""
    if prior is None:
        return uniform_prior(legal)
    given = as_floats("prior", prior)
    if given.shape != legal.shape:
        raise TableError(f"prior must have shape [S, A] = {list(legal.shape)}, got {list(given.shape)}")
    given = np.where(absorbing[:, None], uniform_prior(legal), given)
    wrong = ~(np.isfinite(given) & (given >= 0))
    if wrong.any():
        s, a = (int(i) for i in np.argwhere(wrong)[0])
        raise TableError(
            f"prior of action {action_names[a]!r} in state {state_names[s]!r} is {given[s, a]}; "
            "give probabilities"
        )
    illegal = (given > 0) & ~legal
    if illegal.any():
        s, a = (int(i) for i in np.argwhere(illegal)[0])
        raise TableError(
            f"prior gives {given[s, a]:.6g} to action {action_names[a]!r} in state {state_names[s]!r}, "
            "which is not legal there; set it to zero"
        )
    total = given.sum(axis=1)
    if (total == 0).any():
        raise TableError(
            f"prior forbids all actions in state {state_names[int(np.argmax(total == 0))]!r}; "
            "leave at least one a probability above zero"
        )
    off = np.abs(total - 1) > _ROUNDING
    if off.any():
        s = int(np.argmax(off))
        raise TableError(f"prior in state {state_names[s]!r} sums to {total[s]:.6g}, not to one")
    # Rows that sum to one but for rounding are left as they are: dividing would change their digits.
    return np.asarray(np.where((np.abs(total - 1) < 1e-12)[:, None], given, given / total[:, None]))


def check_strength(strength: float) -> float:
    """Return the power of a prior; refuse one below zero."""
    if not is_number(strength) or not (np.isfinite(strength) and strength >= 0):
        raise TableError(f"prior_strength must be a number of at least 0, got {strength!r}")
    return float(strength)


def strengthen(prior: NDArray[np.float64], strength: float) -> NDArray[np.float64]:
    """Return ``prior^k`` normalised over the last axis, for a strength `k` of at least zero.

    As if the prior had spoken `k` times: 0 is uniform over what it allows, 1 is the prior, and a large `k`
    leaves its most probable actions only.

    Examples
    --------
    >>> strengthen(np.array([0.2, 0.8, 0.0]), 2.0).round(4).tolist()
    [0.0588, 0.9412, 0.0]
    """
    if check_strength(strength) == 1:
        return prior
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    scaled = np.where(prior > 0, strength * np.where(prior > 0, log_prior, 0.0), -np.inf)
    powers = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
