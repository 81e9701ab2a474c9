"""Rigorous bounds on the log evidence ``log Z``, the logarithm of the mean of ``exp(J)`` over all policies.

The mean is under the reference measure, and ``J`` is discounted where the problem is.

From below by the mass of policies that were found, from above by relaxations that are dynamic programmes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from polinfer.core.errors import PolinferError
from polinfer.exact import visits
from polinfer.exact.branching import branch
from polinfer.exact.passes import greedy_at, stationary_returns
from polinfer.exact.reachable import Reachable, reachable
from polinfer.exact.relaxations import MOST_STEPS, entry_bound, record_bound, record_work
from polinfer.exact.solution import Floats
from polinfer.exact.solvers import stationary_optimum
from polinfer.exact.variational import factorised_bound
from polinfer.problems.tabular.table import TabularMDP

WORK = 2e8
"""Multiplications that one upper bound may take: about a second."""

_IMPROVED = 200  # up to this many states the best stationary policy is searched for


class EvidenceBounds(NamedTuple):
    """An interval that holds the log evidence."""

    lower: float
    upper: float
    found: float  # the log mass of the reach classes of `policies`, itself a lower bound
    policies: NDArray[np.int64]  # [n, S]
    method: str  # how the two bounds were found

    @property
    def total_variation(self) -> float:
        """At most this share of the posterior lies outside of the reach classes that were found."""
        return total_variation_bound(self.found, self.upper)


def evidence_bounds(
    table: TabularMDP,
    policies: NDArray[np.integer] | None = None,
    *,
    leaves: int = 64,
    work: float = WORK,
    tolerance: float = 1e-3,
) -> EvidenceBounds:
    """Bound the log evidence from both sides.

    Parameters
    ----------
    table
        The problem.
    policies
        ``[n, S]``, deterministic policies to count in the lower bound besides the best one known.
    leaves
        How many problems with some choices fixed are bounded, to sharpen both sides; 1 for none.
    work
        How many multiplications one bound may take beyond what is linear in the table times the horizon, and
        all leaves together.
    tolerance
        Stop where the bounds are as close as this.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.make("probe/three-targets")
    >>> bounds = evidence_bounds(table)
    >>> truth = polinfer.exact.policy_posterior(table).posterior.log_evidence
    >>> bounds.lower - 1e-9 <= truth <= bounds.upper + 1e-9
    True
    """
    known = known_policies(table, policies)
    found, graph = class_mass(table, known), reachable(table)
    factorised = _factorised(table, graph, known)
    lower = max(found, factorised)
    upper, method = upper_bound(table, work)
    affordable = int(min(leaves, work / max(1.0, _work(graph, work))))
    if affordable > 1 and upper - lower > tolerance:
        search = branch(
            table,
            lambda legal: upper_bound(table, work, legal)[0],
            affordable,
            found=lower,
            tolerance=tolerance,
        )
        known = np.concatenate([known, search.policies])
        found = class_mass(table, known)
        lower = max(lower, found)
        if search.upper < upper:
            upper, method = search.upper, f"{method}, {search.leaves} leaves"
    below = "classes found" if found >= factorised else "independent choices"
    return EvidenceBounds(lower, upper, found, known, f"{below}; {method}")


def _work(graph: Reachable, work: float) -> float:
    """Return about how many multiplications one call of `upper_bound` takes."""
    linear = 2.0 * len(graph.source) * min(graph.horizon, MOST_STEPS)
    return linear + 2 * sum(cost for cost in (record_work(graph), visits.record_work(graph)) if cost <= work)


def lower_bound(table: TabularMDP, policies: NDArray[np.integer] | None = None) -> float:
    """Return a number that ``log Z`` cannot be below.

    The larger of the mass of the reach classes of `policies` and `known_policies`, and of what independent
    choices around the best of them prove.
    """
    known = known_policies(table, policies)
    return max(class_mass(table, known), _factorised(table, reachable(table), known))


def known_policies(table: TabularMDP, policies: NDArray[np.integer] | None = None) -> NDArray[np.int64]:
    """Return good stationary policies ``[n, S]``, and `policies` after them.

    These are the greedy policies of some stages of the finite-horizon optimum, and, on tables of up to 200
    states, what `stationary_optimum` improves them to; with a reference measure that is not uniform also its
    most probable policy.
    """
    late = table.horizon - np.geomspace(1, table.horizon, 8)
    stages = np.unique(np.concatenate([np.linspace(0, table.horizon - 1, 8), late]).astype(np.int64))
    known = [greedy_at(table, table.horizon, table.discount, stages)]
    if table.num_states <= _IMPROVED:
        known.append(stationary_optimum(table).policy.argmax(axis=1)[None])
    if table.has_prior:
        known.append(table.prior.argmax(axis=1)[None])
    if policies is not None:
        known.append(np.asarray(policies))
    return np.concatenate(known).astype(np.int64)


def _factorised(table: TabularMDP, graph: Reachable, known: NDArray[np.int64]) -> float:
    if len(graph.state) == 0:
        return 0.0
    worth = stationary_returns(table, known, table.horizon)
    if table.has_prior:
        worth = _log_masses(table, reach_classes(table, known))
    best = known[worth.argmax()]
    return factorised_bound(graph, best[graph.state]).log_evidence


def class_mass(table: TabularMDP, policies: NDArray[np.integer]) -> float:
    """Return the log of the summed mass of the distinct reach classes of `policies` ``[n, S]``.

    A policy's class is its choices in the states in which it acts within the horizon.  All policies of a
    class have the same return, and together they have the mass ``prod mu(a|s)`` of the reference measure.

    Examples
    --------
    >>> import polinfer
    >>> table = polinfer.tabulate(polinfer.make("continuation", rho=0.5))
    >>> every = np.array([[0, 0], [1, 0]])
    >>> truth = polinfer.exact.policy_posterior(table).posterior.log_evidence
    >>> abs(class_mass(table, every) - truth) < 1e-12
    True
    """
    classes = reach_classes(table, policies)
    classes = np.unique(classes, axis=0)
    if len(classes) == 0:
        return -np.inf
    return float(logsumexp(_log_masses(table, classes)))


def class_marginals(table: TabularMDP, policies: NDArray[np.integer]) -> Floats:
    """Return ``Pr[pi(s) = a]`` ``[S, A]`` of the posterior given that the policy is in a class of `policies`.

    Where a class does not reach a state its action is that of the reference measure.  The whole posterior's
    marginals are no further from these than the mass outside of the classes (`total_variation_bound`).
    """
    classes = np.unique(reach_classes(table, policies), axis=0)
    log_mass = _log_masses(table, classes)
    weight = np.exp(log_mass - logsumexp(log_mass))
    chosen = np.stack([weight @ (classes == action) for action in range(table.num_actions)], axis=1)
    return np.asarray(chosen + (1.0 - chosen.sum(axis=1, keepdims=True)) * table.prior)


def _log_masses(table: TabularMDP, classes: NDArray[np.int64]) -> Floats:
    """Return the log mass of each of some distinct reach classes ``[n, S]``."""
    filled = np.where(classes >= 0, classes, table.legal_actions.argmax(axis=1))
    prior = table.prior[np.arange(table.num_states), filled]
    log_share = np.where(classes >= 0, np.log(prior), 0.0).sum(axis=1)
    return np.asarray(stationary_returns(table, filled, table.horizon) + log_share)


def reach_classes(table: TabularMDP, policies: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the policies ``[n, S]`` with -1 in every state in which they do not act within the horizon."""
    chosen = np.asarray(policies)
    if chosen.ndim != 2 or chosen.shape[1] != table.num_states or chosen.dtype.kind not in "iu":
        raise PolinferError(
            f"policies must be integers of shape [n, S] = [n, {table.num_states}], "
            f"got {chosen.dtype} of shape {list(chosen.shape)}"
        )
    chosen = chosen.astype(np.int64)
    reached = np.zeros(chosen.shape, np.bool_)
    start = np.flatnonzero((table.initial > 0) & ~table.absorbing)
    row = np.repeat(np.arange(len(chosen)), len(start))
    state = np.tile(start, len(chosen))
    for _ in range(table.horizon):
        reached[row, state] = True
        action = chosen[row, state]
        follow = table.successor[state, action]
        ahead = (
            (table.probability[state, action] > 0) & ~table.absorbing[follow] & ~reached[row[:, None], follow]
        )
        code = np.unique(row[np.nonzero(ahead)[0]] * np.int64(table.num_states) + follow[ahead])
        if len(code) == 0:
            break
        row, state = code // table.num_states, code % table.num_states
    return np.where(reached, chosen, -1)


def upper_bound(
    table: TabularMDP, work: float = WORK, legal: NDArray[np.bool_] | None = None
) -> tuple[float, str]:
    """Return a number that ``log Z`` cannot exceed, and how it was found.

    Parameters
    ----------
    table
        The problem.
    work
        How many multiplications it may take beyond what is linear in the table times the horizon.
    legal
        ``[S, A]``, to be used instead of the table's legal actions.
    """
    graph = reachable(table, legal)
    if len(graph.state) == 0:
        return 0.0, "nothing to decide"
    weight = _weight(graph, work)
    recurrent = graph.recurrent.any()
    if not recurrent:
        return entry_bound(graph, weight), "no state comes twice"
    if record_work(graph) > work:
        return entry_bound(graph, weight), "first visits"
    other = reachable(table, legal, late_first=True)
    bounds = [record_bound(graph, weight), record_bound(other, _weight(other, work))]
    return min(bounds), "records"


def _weight(graph: Reachable, work: float) -> Floats:
    """Return the best affordable bound ``[n]`` on the probability of a record."""
    weight = visits.visit_bound(graph)
    if visits.record_work(graph) <= work:
        weight = np.minimum(weight, visits.record_probability(graph))
    return np.asarray(weight)


def markov_bound(log_estimates: ArrayLike, risk: float = 1e-3) -> float:
    """Return a lower bound on ``log Z`` from independent unbiased estimates, wrong with probability `risk`.

    An estimate ``Z-hat >= 0`` with mean `Z` exceeds ``t Z`` with probability at most ``1/t`` (Markov), so `m`
    out of `k` do with at most ``C(k, m) / t^m``.  The best `m` is taken, each with its share of the risk.

    Parameters
    ----------
    log_estimates
        ``[k]``, the logarithms of the estimates: importance sampling, annealing, sweeps of one target.
    risk
        The probability with which the result may exceed ``log Z``, over the draws behind the estimates.

    Examples
    --------
    >>> round(markov_bound([2.0], risk=0.01), 3)
    -2.605
    >>> round(markov_bound([2.0] * 8, risk=0.01), 3)
    1.164
    """
    if not 0 < risk < 1:
        raise PolinferError(f"risk must lie between 0 and 1, got {risk}")
    estimates = np.sort(np.asarray(log_estimates, np.float64).ravel())[::-1]
    number = len(estimates)
    if number == 0:
        return -np.inf
    exceeding = np.arange(1, number + 1)
    log_ways = gammaln(number + 1) - gammaln(exceeding + 1) - gammaln(number - exceeding + 1)
    return float((estimates - (log_ways + np.log(number / risk)) / exceeding).max())


def total_variation_bound(found: float, upper: float) -> float:
    """Return at least the total variation between the posterior and its part on policies that were found.

    `found` is their log mass, `upper` an upper bound on the log evidence: ``1 - Z_found / Z`` is the share of
    the posterior elsewhere.
    """
    return float(-np.expm1(min(0.0, found - upper)))
