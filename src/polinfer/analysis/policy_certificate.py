"""How a policy from elsewhere compares with the posterior: distance, what it loses, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from polinfer import exact
from polinfer.analysis.certificate import certify
from polinfer.analysis.judgement import Effort, Verdict, mean_distance, policy_of
from polinfer.core.errors import PolinferError
from polinfer.exact.bounds import class_mass
from polinfer.exact.evaluation import check_policy
from polinfer.exact.solution import Floats
from polinfer.methods import infer
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular.policy_files import as_probabilities
from polinfer.problems.tabular.table import TabularMDP

_LISTED = 5  # states in which a policy differs most


class Difference(NamedTuple):
    """A state in which a policy differs from the posterior's marginal policy."""

    state: str
    action: str  # that the policy takes most often
    posterior_action: str  # the most probable one
    posterior_probability: float  # of `action` under the posterior
    share: float  # of the whole distance


class PolicyCertificate(NamedTuple):
    """How a policy from elsewhere compares with the posterior of a problem."""

    distance: float  # to the posterior's marginal policy, weighted by its occupancy
    expected_return: float
    uniform_return: float
    posterior_return: float  # of the marginal policy
    optimal_return: float  # of the best policy that may depend on time
    log_probability: (
        float | None
    )  # of its choices where it comes, under the posterior; deterministic ones only
    mode_log_probability: float | None  # the same of the most probable choices known
    differences: tuple[Difference, ...]  # largest first
    posterior_verdict: Verdict  # how far the posterior that it is compared with can be relied upon
    reason: str  # of that verdict

    def __str__(self) -> str:
        earned, ahead = self.expected_return, self.expected_return - self.posterior_return
        text = (
            f"it earns {earned:.4g}, {self.optimal_return - earned:.4g} less than the optimum and "
            f"{abs(ahead):.4g} {'less' if ahead < 0 else 'more'} than the posterior's marginal policy, from "
            f"which it is {self.distance:.3f} away"
        )
        if self.log_probability is not None and self.mode_log_probability is not None:
            behind = self.mode_log_probability - self.log_probability
            text += (
                "; no policy known is more probable"
                if behind <= 1e-6
                else f"; the most probable policy known is exp({behind:.3g}) times as probable"
            )
        return text


def certify_policy(
    problem: Problem, policy: Any, *, seed: int = 0, effort: Effort = "default"
) -> PolicyCertificate:
    """Compare a policy, from any source, with the posterior of `problem`.

    Parameters
    ----------
    problem
        A problem that fits a table.
    policy
        ``[S]`` actions, ``[S, A]`` or ``[H, S, A]`` probabilities, a mapping from states (numbers or names)
        to actions or probabilities, a function from a state to an action or to probabilities ``[A]``,
        anything with ``predict(state)`` as Stable-Baselines3's models have it, or a `Posterior`.
    seed
        Of the run that finds the posterior.
    effort
        That its certificate may take.

    Examples
    --------
    >>> import polinfer
    >>> mdp = polinfer.make("gridworld/ablation")
    >>> even = polinfer.exact.uniform_policy(polinfer.tabulate(mdp))
    >>> found = polinfer.certify_policy(mdp, even)
    >>> f"{found.distance:.2f}", found.expected_return < found.posterior_return
    ('0.32', True)
    """
    table = shared_table(problem)
    stages = policy_array(table, policy)
    answer = infer(problem, seed=seed)
    certificate = certify(answer, seed=seed, effort=effort)
    marginal = policy_of(answer)
    averaged = stages if stages.ndim == 2 else exact.average_over_time(table, stages)
    value = exact.evaluate_policy(table, marginal)
    log_probability = mode = None
    if stages.ndim == 2 and answer.policies is not None:
        log_evidence = answer.policies.log_evidence
        mode = max(class_mass(table, top[None]) for top in answer.policies.top_policies) - log_evidence
        if (stages.max(axis=1) > 1 - 1e-9)[~table.absorbing].all():
            log_probability = class_mass(table, stages.argmax(axis=1)[None]) - log_evidence
            mode = max(mode, log_probability)
    return PolicyCertificate(
        distance=mean_distance(table, marginal, averaged[None]),
        expected_return=exact.evaluate_policy(table, stages).expected_return,
        uniform_return=exact.evaluate_policy(table, exact.uniform_policy(table)).expected_return,
        posterior_return=value.expected_return,
        optimal_return=exact.finite_horizon_optimum(table).objective,
        log_probability=log_probability,
        mode_log_probability=mode,
        differences=_differences(table, averaged, marginal, value.occupancy),
        posterior_verdict=certificate.verdict,
        reason=certificate.reason,
    )


def policy_array(table: TabularMDP, policy: Any) -> Floats:
    """Return a policy from elsewhere as ``[S, A]`` or ``[H, S, A]`` probabilities."""
    if isinstance(policy, Posterior):
        return policy_of(policy)
    if hasattr(policy, "predict"):
        return as_probabilities(
            _ask(table, lambda state: policy.predict(state, deterministic=True)[0]), table
        )
    if callable(policy):
        return as_probabilities(_ask(table, policy), table)
    if not isinstance(policy, Mapping) and np.ndim(policy) == 3:
        return check_policy(table, policy, table.horizon)
    return as_probabilities(policy, table)


def _ask(table: TabularMDP, ask: Any) -> dict[int, Any]:
    """Return what `ask` says in each state in which one acts."""
    found: dict[int, Any] = {}
    for number, state in enumerate(table.states):
        if table.absorbing[number]:
            continue
        said = np.asarray(ask(state))
        if said.ndim > 1 or said.dtype.kind not in "fiu" or (said.ndim == 0 and said.dtype.kind == "f"):
            raise PolinferError(
                f"the policy must return an action or {table.num_actions} probabilities, and returned "
                f"{said!r} in state {table.state_names[number]!r}"
            )
        found[number] = said.item() if said.ndim == 0 or said.shape == (1,) else said
    return found


def _differences(
    table: TabularMDP, policy: Floats, marginal: Floats, occupancy: Floats
) -> tuple[Difference, ...]:
    apart = 0.5 * np.abs(policy - marginal).sum(axis=1) * np.where(table.absorbing, 0.0, occupancy)
    order = np.argsort(-apart, kind="stable")[:_LISTED]
    taken, likely = policy.argmax(axis=1), marginal.argmax(axis=1)
    return tuple(
        Difference(
            table.state_names[s],
            table.action_names[int(taken[s])],
            table.action_names[int(likely[s])],
            float(marginal[s, taken[s]]),
            float(apart[s] / apart.sum()),
        )
        for s in order
        if apart[s] > 1e-9
    )
