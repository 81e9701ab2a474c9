"""One problem, every answer: the policy posterior beside its neighbours, evaluated the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from polinfer import exact
from polinfer.core.absorbing import Absorbing, check_absorbing
from polinfer.core.display import viewer
from polinfer.core.errors import PolinferError, TooLargeError
from polinfer.exact.enumeration import DEFAULT_LIMIT, Progress
from polinfer.exact.solution import Floats, Result, Solution
from polinfer.methods import METHODS
from polinfer.posterior.posterior import Posterior
from polinfer.problems.registry import Problem
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular import TabularMDP
from polinfer.problems.tabular.ending import check_horizon_cost
from polinfer.problems.timed import Layers, layers_of

_SECONDS_A_STEP = 2e-3  # of the horizon, all solvers together


class Answer(NamedTuple):
    """What one method makes of the problem."""

    name: str
    solution: Solution
    value: exact.PolicyValue  # of executing the method's policy from the start
    returns: exact.ReturnSummary
    seeds: int = 1  # trained runs behind it, whose answers are averaged
    spread: float = 0.0  # standard deviation of their mean returns


class Comparison(NamedTuple):
    """All answers to one problem."""

    table: TabularMDP
    answers: tuple[Answer, ...]
    distances: Floats  # [n, n], occupancy-weighted total variation between the answers' policies
    notes: tuple[str, ...]  # what was left out, and why

    def distance_to_posterior(self, index: int) -> float | None:
        """Return the distance of answer `index` to the posterior-induced policy, None without one."""
        if self.answers[0].solution.posterior is None:
            return None
        return float(self.distances[index, 0])

    def __str__(self) -> str:
        """Return a line for each answer: its return, and its success where the problem has one."""
        lines = []
        for answer in self.answers:
            value, success = answer.value, answer.value.success
            shown = "" if success is None else f"{success:8.3f}"
            lines.append(f"{answer.name:24}{value.expected_return:10.3f}{shown}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(viewer().card(self))


def compare(
    mdp: Problem,
    *,
    learned: Mapping[str, Posterior] | None = None,
    alpha: float = 1.0,
    absorbing: Absorbing = "end",
    risk: float = 1.0,
    limit: int = DEFAULT_LIMIT,
    progress: Progress | None = None,
) -> Comparison:
    """Solve `mdp` by every exact method and evaluate each policy over the same horizon, exactly.

    Parameters
    ----------
    mdp
        A problem that `tabulate` can write out.
    learned
        Further rows: what `infer` returned for `mdp`, by the names to show.  Seeds are averaged.  Next to
        ``sac`` its exact aim is shown, soft value iteration with the same ``alpha`` and ``gamma``.
    alpha
        The entropy weight of the soft policy.
    absorbing
        ``"continue"`` lets the soft policy earn entropy in absorbing states, until the horizon.
    risk
        The entropic risk parameter; the policy that avoids risk gets ``-risk``.
    limit
        The largest number of policies to enumerate; with more, the posterior is left out with a note.
    progress
        Called while policies are enumerated.

    Examples
    --------
    >>> import polinfer
    >>> result = polinfer.compare(polinfer.make("probe/three-targets"))
    >>> [answer.name for answer in result.answers][:3]
    ['policy posterior', 'soft (alpha=1)', 'control as inference']
    >>> [f"{distance:.3f}" for distance in result.distances[0, :3]]
    ['0.000', '0.000', '0.433']
    """
    check_risk(risk)
    table = shared_table(mdp)
    check_horizon_cost(table, _SECONDS_A_STEP)
    trained = dict(learned or {})
    for name, posterior in trained.items():
        if posterior.mdp is not mdp and posterior.mdp != mdp:
            raise PolinferError(f"{name!r} was inferred for another problem than the one to compare on")
    notes: list[str] = []
    going_on = "" if check_absorbing(absorbing) else ", absorbing=continue"
    solvers: list[tuple[str, Callable[[], Solution]]] = [
        ("policy posterior", lambda: exact.policy_posterior(table, limit=limit, progress=progress)),
        (
            f"soft (alpha={alpha:g}{going_on})",
            lambda: exact.soft_value_iteration(table, alpha, absorbing=absorbing),
        ),
        ("control as inference", lambda: exact.control_as_inference(table)),
        (f"risk seeking ({risk:g})", lambda: exact.entropic_risk(table, risk)),
        (f"risk averse ({-risk:g})", lambda: exact.entropic_risk(table, -risk)),
        ("stationary optimum", lambda: exact.stationary_optimum(table)),
        ("finite-horizon optimum", lambda: exact.finite_horizon_optimum(table)),
        ("uniform", lambda: _fixed("uniform", table, exact.uniform_policy(table))),
    ]
    if table.has_prior:
        solvers.append(("prior", lambda: _fixed("prior", table, np.array(table.prior))))
    layers = layers_of(table)
    if layers is not None:
        solvers[5] = ("stationary optimum", lambda: _lifted(table, layers))
    answers = []
    for name, solve in solvers:
        try:
            answers.append(_evaluate(table, name, solve()))
        except TooLargeError as error:
            notes.append(f"{name} left out: {error}")
    for name, posterior in trained.items():
        answers += _learned_answers(table, name, posterior)
    notes += _price_of_stationarity(answers)
    return Comparison(table, tuple(answers), _distances(table, answers), tuple(notes))


def check_risk(risk: float) -> None:
    """Refuse a risk parameter that is not above zero."""
    if not risk > 0:
        raise PolinferError(
            f"risk must be above zero, got {risk}; the policy that avoids risk gets its negative"
        )


def policy_distance(first: Floats, second: Floats, weight: Floats) -> float:
    """Return the total variation between policies ``[S, A]``, averaged over states by `weight` ``[S]``."""
    if weight.sum() == 0:
        return 0.0
    per_state = 0.5 * np.abs(first - second).sum(axis=1)
    return float(per_state @ weight / weight.sum())


def summarise_returns(table: TabularMDP, policy: Floats, value: exact.PolicyValue) -> exact.ReturnSummary:
    """Return mean and spread, and the quantiles where the distribution can be followed exactly."""
    distribution = exact.return_distribution(table, policy)
    if distribution is None:
        return exact.ReturnSummary(value.expected_return, value.std, None, None, None, None)
    return distribution.summary()


def _fixed(name: str, table: TabularMDP, policy: Floats) -> Solution:
    value = exact.evaluate_policy(table, policy)
    return Solution(name, policy, value.value, value.expected_return, exact.Result.EXACT)


def _lifted(table: TabularMDP, layers: Layers) -> Solution:
    """Return the best policy that does the same at every step, on a table by steps."""
    found = exact.stationary_optimum(layers.table)
    policy = layers.lift(found.policy)
    value = exact.evaluate_policy(table, policy)
    return replace(
        _fixed("stationary optimum", table, policy),
        value=value.value,
        result=found.result,
        residual=found.residual,
    )


def _price_of_stationarity(answers: list[Answer]) -> list[str]:
    """Say what a policy loses that does the same at every step, where it loses anything."""
    earned = {answer.name: answer.value.expected_return for answer in answers}
    optimum, best = earned["finite-horizon optimum"], earned["stationary optimum"]
    if optimum - best <= 1e-6 * max(1.0, abs(optimum)):
        return []
    return [
        f"Stationarity costs {optimum - best:.4g}: the best policy that looks at the step earns "
        f"{optimum:.4g}, the best stationary one that was found {best:.4g} (policies='time-dependent')."
    ]


def _evaluate(table: TabularMDP, name: str, solution: Solution) -> Answer:
    value = exact.evaluate_policy(table, solution.executable)
    return Answer(
        name=name,
        solution=solution,
        value=value,
        returns=summarise_returns(table, solution.executable, value),
    )


def _learned_answers(table: TabularMDP, name: str, posterior: Posterior) -> list[Answer]:
    probs = policies_on(table, posterior)
    values = [exact.evaluate_policy(table, row) for row in probs]
    mean = probs.mean(axis=0)
    value = _mixture(values)
    solution = Solution(
        method=posterior.method,
        policy=mean,
        value=value.value,
        objective=value.expected_return,
        result=Result.LEARNED,
        settings=posterior.config.to_dict(),
    )
    distributions = [exact.return_distribution(table, row) for row in probs]
    returns = exact.ReturnSummary(value.expected_return, value.std, None, None, None, None)
    known = [d for d in distributions if d is not None]
    if len(known) == len(distributions):
        pooled, where = np.unique(np.concatenate([d.returns for d in known]), return_inverse=True)
        mass = np.bincount(where, np.concatenate([d.probability for d in known])) / len(known)
        returns = exact.ReturnDistribution(pooled, mass).summary()
    spread = float(np.std([v.expected_return for v in values]))
    found = [Answer(name, solution, value, returns, posterior.seeds, spread)]
    oracle = METHODS[posterior.method].oracle(posterior)
    if oracle is not None and oracle.distances is not None:
        found.append(_evaluate(table, oracle.name, oracle.solution))
    return found


def policies_on(table: TabularMDP, posterior: Posterior) -> Floats:
    """Return a posterior's policies ``[seeds, S, A]`` in the order of `table`, rows summing to one."""
    probs = posterior.table_probs()
    if probs is None or posterior.view != table:
        raise PolinferError(
            f"a posterior that was trained on {type(posterior.view).__name__}, not on its table, cannot be "
            "compared exactly; evaluate it by simulation"
        )
    rows = probs.astype(np.float64)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def _mixture(values: Sequence[exact.PolicyValue]) -> exact.PolicyValue:
    """Return the value of picking one of several policies by chance and keeping to it."""

    def mean(name: str) -> Any:
        return np.mean([getattr(value, name) for value in values], axis=0)

    means = np.array([value.expected_return for value in values])
    success = None if values[0].success is None else float(mean("success"))
    return exact.PolicyValue(
        expected_return=float(means.mean()),
        variance=float(mean("variance") + means.var()),
        value=mean("value"),
        occupancy=mean("occupancy"),
        success=success,
        endings={name: float(np.mean([v.endings[name] for v in values])) for name in values[0].endings},
        length=float(mean("length")),
        entropy=float(mean("entropy")),
    )


def _distances(table: TabularMDP, answers: list[Answer]) -> Floats:
    spent = [np.where(table.absorbing, 0.0, answer.value.occupancy) for answer in answers]
    # An episode that begins at its end has no length, and no weight either.
    shares = [steps / max(float(steps.sum()), 1e-300) for steps in spent]
    return np.array(
        [
            [
                policy_distance(a.solution.policy, b.solution.policy, (u + v) / 2)
                for b, v in zip(answers, shares, strict=True)
            ]
            for a, u in zip(answers, shares, strict=True)
        ]
    )


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as plain lists and numbers."""
    return {
        "answers": [
            {
                "name": answer.name,
                "result": str(answer.solution.result),
                "residual": answer.solution.residual,
                "settings": dict(answer.solution.settings),
                "return": answer.returns._asdict(),
                "success": answer.value.success,
                "endings": answer.value.endings,
                "length": answer.value.length,
                "entropy": answer.value.entropy,
                "seeds": answer.seeds,
                "return_std_over_seeds": answer.spread,
                "distance_to_posterior": comparison.distance_to_posterior(i),
            }
            for i, answer in enumerate(comparison.answers)
        ],
        "distances": comparison.distances.tolist(),
        "notes": list(comparison.notes),
    }
