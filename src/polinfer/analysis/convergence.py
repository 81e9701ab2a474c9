"""Whether independent populations agree: R-hat and effective sample sizes of the marginal policy.

The definitions are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), as ArviZ computes them.
A choice is made or not, so a draw has two values, and ranks change nothing: the rank-normalised split R-hat
of such draws is their split R-hat.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.exact.solution import Floats
from polinfer.posterior.posterior import Posterior
from polinfer.problems.tabular.table import TabularMDP

_LEAST = 4  # draws of a population, below which nothing can be said
_CERTAIN = 1e-3  # marginals this near to 0 or 1 are not looked at


class Convergence(NamedTuple):
    """How far the populations behind a sample of policies agree; means are weighted by occupancy."""

    r_hat: float  # mean; 1 where populations are alike
    worst_r_hat: float
    worst: tuple[int, int]  # the state and action that it belongs to
    ess: float  # mean effective number of policies behind a marginal


def convergence(posterior: Posterior, occupancy: Floats) -> Convergence | None:
    """Compare the populations that a posterior's policies were drawn from; None where there is one only.

    `occupancy` ``[S]`` weighs the states.
    """
    whole, table = posterior.policies, posterior.view
    if whole is None or whole.chains < 2 or whole.sampled_policies is None:
        return None
    assert isinstance(table, TabularMDP)
    drawn = whole.sampled_policies.reshape(whole.chains, -1, table.num_states)
    if drawn.shape[1] < _LEAST:
        return None
    ratios, sizes, weights, pairs = [], [], [], []
    for state in np.flatnonzero((occupancy > 0) & ~table.absorbing):
        for action in np.flatnonzero(table.legal_actions[state]):
            made = (drawn[:, :, state] == action).astype(np.float64)
            share = made.mean()
            if _CERTAIN < share < 1 - _CERTAIN:
                ratios.append(split_r_hat(made))
                sizes.append(effective_size(made))
                weights.append(occupancy[state] * share)
                pairs.append((int(state), int(action)))
    if not ratios:
        return None
    worst = int(np.argmax(ratios))
    return Convergence(
        r_hat=float(np.average(ratios, weights=weights)),
        worst_r_hat=float(ratios[worst]),
        worst=pairs[worst],
        ess=float(np.average(sizes, weights=weights)),
    )


def split_r_hat(draws: Floats) -> float:
    """Return the split R-hat of ``[chains, draws]``: 1 where all halves of all chains have one distribution.

    Examples
    --------
    >>> alike = np.array([[0.0, 1.0] * 50] * 4)
    >>> apart = np.array([[0.0] * 99 + [1.0], [1.0] * 99 + [0.0]])
    >>> round(split_r_hat(alike), 2), split_r_hat(apart) > 5
    (0.99, True)
    """
    halves = _split(draws)
    count = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    if within == 0:
        return 1.0 if between == 0 else np.inf
    return float(np.sqrt((count - 1) / count + between / within))


def effective_size(draws: Floats) -> float:
    """Return the effective sample size of ``[chains, draws]`` by Geyer's initial monotone sequence.

    Examples
    --------
    >>> independent = np.random.default_rng(0).random((4, 500)) < 0.3
    >>> 1500 < effective_size(independent.astype(float)) < 2600
    True
    """
    halves = _split(draws)
    chains, count = halves.shape
    covariance = _autocovariance(halves)  # [chains, lags]
    within = covariance[:, 0].mean() * count / (count - 1)
    pooled = within * (count - 1) / count
    if chains > 1:
        pooled += halves.mean(axis=1).var(ddof=1)
    if pooled == 0:
        return float(chains * count)
    correlation = 1 - (within - covariance.mean(axis=0)) / pooled
    correlation[0] = 1.0
    # Sums of neighbouring pairs are positive and fall, for a reversible chain: what breaks this is noise.
    pairs = correlation[: 2 * (count // 2)].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    end = int(negative[0]) if len(negative) else len(pairs) - 1
    kept = np.minimum.accumulate(pairs[:end])
    rest = max(correlation[2 * end], 0.0) if end else 0.0
    time = max(-1 + 2 * kept.sum() + rest, 1 / np.log10(chains * count))
    return float(chains * count / time)


def _split(draws: Floats) -> Floats:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _autocovariance(draws: Floats) -> NDArray[np.float64]:
    """Return the autocovariance ``[chains, draws]`` at every lag."""
    count = draws.shape[1]
    centred = draws - draws.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, 2 * count, axis=1)) ** 2
    return np.asarray(np.fft.irfft(power, 2 * count, axis=1)[:, :count] / count)
