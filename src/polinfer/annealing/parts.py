"""The posterior of one part of a problem, however it was found, and how parts make a whole."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polinfer.annealing.annealer import Annealer
from polinfer.annealing.classes import Classes, log_total
from polinfer.annealing.enumerate import Listed
from polinfer.annealing.path import AnnealedPoint
from polinfer.annealing.problem import Problem
from polinfer.annealing.reach import affordable, reach_policy, visit_probability
from polinfer.annealing.state import State
from polinfer.annealing.strata import misjudged_stratum, stratified
from polinfer.exact.enumeration import decision_states
from polinfer.exact.evaluation import draw_prior
from polinfer.exact.joint import posterior_entropy
from polinfer.exact.solution import Floats
from polinfer.problems.tabular.table import TabularMDP

REACHED_BY = 256  # policies of the sample that the reach policy is computed from
_LEAST_ERROR = 1e-9  # of a log evidence that was not enumerated
_OUTSIDE = 0.02  # share of the posterior outside of the heaviest classes, up to which they are the answer


class PartPosterior(NamedTuple):
    """The posterior of one part at one scale."""

    log_evidence: float
    log_evidence_stderr: float
    returns: float
    returns_stderr: float
    policy: Floats  # [N, A]
    policy_stderr: Floats  # [N, A]
    visits: Floats  # [N] expected
    sample: NDArray[np.int16]  # [N, M]
    sample_returns: Floats  # [M]
    reach: Floats  # [N, A] reach policy; zero where nobody comes
    lower_bound: float
    best: NDArray[np.int16]  # [N]
    best_return: float
    round_log_evidence: Floats  # [R, I]; no rounds where it was enumerated
    exact: bool
    reverse_log_evidence: float = np.nan  # as annealing back finds it; nan where that was not done
    reverse_log_evidence_stderr: float = 0.0


def listed_posterior(problem: Problem, listed: Listed, scale: float, count: int, seed: int) -> PartPosterior:
    """Return the exact posterior from all reach classes, with a sample of `count` policies."""
    log_mass = scale * listed.returns + listed.log_prior
    log_evidence = float(np.logaddexp.reduce(log_mass))
    weight = np.exp(log_mass - log_evidence)
    weight = weight / weight.sum()
    policy = _class_policy(problem, listed.policy, weight)
    random = np.random.default_rng([seed, 1])
    drawn = random.permutation(systematic(weight, count, random))
    top = int(np.argmax(listed.returns))
    if listed.chance is not None:
        reach = reach_policy(problem, listed.policy, listed.chance * weight)
    elif len(weight) <= max(REACHED_BY, affordable(problem)):
        chance = visit_probability(problem, listed.policy, listed.visits)
        reach = reach_policy(problem, listed.policy, chance * weight)
    else:
        few = drawn[:REACHED_BY]
        reach = sampled_reach(problem, listed.policy[:, few], listed.visits[:, few])
    return PartPosterior(
        log_evidence=log_evidence,
        log_evidence_stderr=0.0,
        returns=float(weight @ listed.returns),
        returns_stderr=0.0,
        policy=policy,
        policy_stderr=np.zeros_like(policy),
        visits=listed.visits @ weight,
        sample=_fill(listed.policy[:, drawn], problem.prior, random),
        sample_returns=listed.returns[drawn],
        reach=reach,
        lower_bound=log_evidence,
        reverse_log_evidence=log_evidence,
        best=_fill(listed.policy[:, [top]], problem.prior, random)[:, 0],
        best_return=float(listed.returns[top]),
        round_log_evidence=np.zeros((0, 0)),
        exact=True,
    )


def annealed_posterior(annealer: Annealer, state: State, count: int, seed: int) -> PartPosterior:
    """Return what a finished annealer found, with a sample of `count` policies, a multiple of the islands."""
    found = annealer.estimate(state)
    if found is None:
        raise RuntimeError("the annealer has not reached the posterior yet")
    bound = log_total(state.classes)
    problem = annealer.problem
    returns, visits = annealer.ensemble.evaluate(state.policy)
    random = np.random.default_rng([seed, 2])
    order = random.permutation(state.policy.shape[1])
    drawn = _by_island(len(order), annealer.config.islands, count, random)
    reached = np.where(visits > 0, state.policy, -1).astype(np.int16)
    sample, sample_returns = reached[:, drawn], returns[drawn]
    populations = np.concatenate([state.round_classes, state.members[None]])
    stratum = misjudged_stratum(
        state.classes, max(found.log_evidence, bound), populations, annealer.config.islands
    )
    if stratum is not None:
        found, share = stratified(annealer.all_rounds(state), stratum, problem.prior)
        members = np.flatnonzero(~np.isin(state.members, stratum.code))
        rest = members if len(members) else order
        inside = random.random(count) < share
        known = random.choice(len(stratum.weight), count, p=stratum.weight)
        other = random.choice(rest, count)
        sample = np.where(inside, stratum.policy[:, known], reached[:, other])
        sample_returns = np.where(inside, stratum.returns[known], returns[other])
    log_evidence = max(found.log_evidence, bound)
    # What the estimate lacked may be lacking in the marginals, too.
    lacking = float(-np.expm1(found.log_evidence - log_evidence))
    several = problem.legal.sum(axis=1, keepdims=True) > 1
    found = found._replace(
        policy_stderr=np.where(several, np.maximum(found.policy_stderr, lacking / 2), 0.0) * problem.legal
    )
    outside = _outside(state.classes, log_evidence)
    if outside <= _OUTSIDE:
        # What the population has outside, and one more: log Z may lack what was never met.
        unseen = (~np.isin(state.members, state.classes.heavy_code)).sum() + 1
        outside = max(outside, float(unseen / (len(state.members) + 2)))
        # Classes have known masses: nothing is left to the share of moves that was spent in each.
        heavy, weight = state.classes.heavy.T, _weights(state.classes)
        chosen = random.permutation(systematic(weight, count, random))
        sample, sample_returns = heavy[:, chosen], state.classes.heavy_returns[chosen]
        found = found._replace(
            policy=_class_policy(problem, heavy, weight),
            policy_stderr=np.where(several, outside / 2, 0.0) * problem.legal,
            returns=float(weight @ state.classes.heavy_returns),
            returns_stderr=outside * float(state.classes.heavy_returns.std()),
            log_evidence_stderr=max(found.log_evidence_stderr, outside),
        )
    back, few = annealer.reverse(state) or (np.nan, 0.0), order[:REACHED_BY]
    return PartPosterior(
        # The mass of the classes found is certain: where it refutes the estimate, it takes its place.
        log_evidence=log_evidence,
        # Islands may agree to the last bit, and still all be wrong: zero is for what was enumerated.
        log_evidence_stderr=max(found.log_evidence_stderr, log_evidence - found.log_evidence, _LEAST_ERROR),
        returns=found.returns,
        returns_stderr=found.returns_stderr,
        policy=found.policy,
        policy_stderr=found.policy_stderr,
        visits=found.visits,
        sample=_fill(sample, problem.prior, random),
        sample_returns=sample_returns,
        reach=sampled_reach(problem, state.policy[:, few], visits[:, few]),
        lower_bound=bound,
        best=state.best_policy,
        best_return=state.best_return,
        round_log_evidence=annealer.all_rounds(state).log_evidence,
        exact=False,
        reverse_log_evidence=back[0],
        reverse_log_evidence_stderr=back[1],
    )


def _by_island(population: int, islands: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return `count` members of a population, as many of each island, one island after the other."""
    members = random.permuted(np.arange(population).reshape(islands, -1), axis=1)
    return np.concatenate([np.resize(own, count // islands) for own in members])


def _outside(classes: Classes, log_evidence: float) -> float:
    """Return about the share of the posterior outside of the heaviest classes."""
    if not len(classes.heavy_log_mass):
        return 1.0
    held = float(np.logaddexp.reduce(classes.heavy_log_mass))
    return float(-np.expm1(min(0.0, held - log_evidence)))


def _weights(classes: Classes) -> Floats:
    weight = np.exp(classes.heavy_log_mass - classes.heavy_log_mass.max())
    return np.asarray(weight / weight.sum())


def _class_policy(problem: Problem, classes: NDArray[np.int16], weight: Floats) -> Floats:
    """Return the marginal policy ``[N, A]`` of weighted classes ``[N, K]``; the prior elsewhere."""
    actions = range(problem.prior.shape[1])
    policy = np.stack([(classes == action) @ weight for action in actions], axis=1)
    return np.asarray(policy + (1.0 - policy.sum(axis=1, keepdims=True)) * problem.prior)


def systematic(weight: Floats, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw `count` numbers by their weights, with one uniform number."""
    place = (np.arange(count) + random.random()) / count
    return np.minimum(np.searchsorted(np.cumsum(weight), place, side="right"), len(weight) - 1)


def sampled_reach(problem: Problem, policy: NDArray[np.int16], visits: Floats) -> Floats:
    """Return the reach policy of equally weighted policies ``[N, M]`` with their expected visits."""
    return reach_policy(problem, policy, visit_probability(problem, policy, visits))


def _fill(policy: NDArray[np.int16], prior: Floats, random: np.random.Generator) -> NDArray[np.int16]:
    """Draw an action from the reference measure wherever a policy ``[N, M]`` has none (-1)."""
    fresh = draw_prior(prior, random.random(policy.shape))
    return np.where(policy < 0, fresh, policy).astype(np.int16)


def join(
    table: TabularMDP,
    problems: list[Problem],
    posteriors: list[PartPosterior],
    scale: float,
    constant: float,
) -> AnnealedPoint:
    """Return the posterior of the whole problem from those of its parts; `constant` is earned anyway."""
    policy = np.array(table.prior)
    stderr, visits = np.zeros_like(policy), np.zeros(table.num_states)
    count = len(posteriors[0].sample_returns)
    forced = table.legal_actions.argmax(axis=1).astype(np.int32)
    sample = np.broadcast_to(forced, (count, table.num_states)).copy()
    best = forced.copy()
    returns = np.full(count, constant)
    reach = np.zeros_like(policy)
    for problem, part in zip(problems, posteriors, strict=True):
        own = np.flatnonzero((problem.legal.sum(axis=1) > 1) & problem.occupied)
        at = problem.state[own]
        policy[at], stderr[at], visits[at] = part.policy[own], part.policy_stderr[own], part.visits[own]
        sample[:, at], best[at] = part.sample[own].T, part.best[own]
        reach[at] = part.reach[own]
        returns += part.sample_returns
    policy = policy / policy.sum(axis=1, keepdims=True)
    states = decision_states(table, table.horizon)

    def total(name: str) -> float:
        return float(sum(getattr(part, name) for part in posteriors))

    def root(name: str) -> float:
        return float(np.sqrt(sum(getattr(part, name) ** 2 for part in posteriors)))

    log_evidence = total("log_evidence") + scale * constant
    expected_return = total("returns") + constant
    share = visits / max(visits.sum(), 1e-300)
    return AnnealedPoint(
        scale=scale,
        log_evidence=log_evidence,
        log_evidence_stderr=root("log_evidence_stderr"),
        expected_return=expected_return,
        expected_return_stderr=root("returns_stderr"),
        entropy=posterior_entropy(table, states, policy, scale * expected_return, log_evidence),
        policy=policy,
        policy_stderr=stderr,
        reach_policy=np.where(reach.sum(axis=1, keepdims=True) > 0.5, reach, policy),
        sample=sample,
        sample_returns=returns,
        lower_bound=total("lower_bound") + scale * constant,
        best=best,
        best_return=total("best_return") + constant,
        round_log_evidence=tuple(part.round_log_evidence for part in posteriors if not part.exact),
        distance=float((share[:, None] * stderr).sum() / 2 * np.sqrt(2 / np.pi)),
        exact=all(part.exact for part in posteriors),
        reverse_log_evidence=total("reverse_log_evidence") + scale * constant,
        reverse_log_evidence_stderr=root("reverse_log_evidence_stderr"),
    )
