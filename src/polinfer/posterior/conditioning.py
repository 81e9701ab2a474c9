"""Conditioning: the posterior of the policies that make some given choices.

It is the posterior of the problem in which nothing else is legal there.  With ``mu(choices)`` their mass in
the reference measure, ``P(choices) = mu(choices) Z_given / Z``.  Where enough of a sample of whole policies
makes the choices, that part of it is the answer, and its share the probability; else it is inferred anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from polinfer.core.errors import PolinferError, suggest
from polinfer.core.protocol import MDP
from polinfer.core.simulator import prior_of
from polinfer.exact.evaluation import deterministic_returns
from polinfer.exact.joint import describe_sample, reach_policy
from polinfer.exact.returns import choices_of, visits_of
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular.table import TabularMDP
from polinfer.problems.terms import with_terms
from polinfer.smc.proposal import TableProposal

if TYPE_CHECKING:
    from polinfer.posterior.posterior import Posterior

ENOUGH = 400
"""Policies of a sample that must make the choices for that part of it to be the answer."""

Choices = Mapping[Any, int | str] | Iterable[tuple[Any, int | str]]
"""From states to actions; or pairs of them, for states that cannot be keys of a dictionary."""
Source = Literal["auto", "sample", "inference"]
Infer = Callable[..., Any]
_INFER: list[Infer] = []


class Condition(NamedTuple):
    """The choices that a posterior is conditioned on, and how probable they were."""

    choices: dict[str, str]  # from states to actions, by name
    log_probability: float  # of the policies that make all of them
    stderr: float  # of log_probability
    source: Source  # where the answer is from


def register_inference(infer: Infer) -> None:
    """Say how a posterior is inferred: ``infer(problem, config, seed=, seeds=)``."""
    _INFER.append(infer)


def condition(posterior: Posterior, choices: Choices, source: Source) -> Posterior:
    """Return the posterior of the policies that make `choices`; see `Posterior.given`."""
    if source not in ("auto", "sample", "inference"):
        raise PolinferError(f"source must be auto, sample or inference, got {source!r}")
    pairs = list(choices.items() if isinstance(choices, Mapping) else choices)
    if not pairs:
        raise PolinferError("given needs at least one choice, {state: action}")
    table = posterior.view
    if not isinstance(table, TabularMDP):
        return _infer_without_table(posterior, pairs, source)
    made = dict(_resolve(posterior, table, state, action) for state, action in pairs)
    if len(made) < len(pairs):
        raise PolinferError("given names a state twice")
    rows = np.array(table.prior)
    for state, action in made.items():
        rows[state] = 0.0
        rows[state, action] = 1.0
    log_prior = float(sum(np.log(table.prior[state, action]) for state, action in made.items()))
    problem = with_terms(posterior.mdp, prior=rows)
    names = {table.state_names[s]: table.action_names[a] for s, a in made.items()}
    held = _held(posterior, made)
    if source == "sample" and held is None:
        raise PolinferError("there is no sample of whole policies to condition; use source='inference'")
    few = held is None or int(held.sum()) < ENOUGH or posterior.policies is None
    # What was enumerated is enumerated again: that is exact, and a sample is not.
    errors = None if posterior.policies is None else posterior.policies.policy_stderr
    enumerated = errors is None or not errors.any()
    if source == "inference" or (source == "auto" and (few or enumerated)):
        return _infer(posterior, problem, names, log_prior, made)
    assert held is not None
    if not held.any():
        raise PolinferError("no policy of the sample makes these choices; use source='inference'")
    return _from_sample(posterior, problem, names, log_prior, held)


def _resolve(posterior: Posterior, table: TabularMDP, state: Any, action: int | str) -> tuple[int, int]:
    """Return the numbers of a state, given itself or by name, and of an action."""
    number = table.number_of(state) if isinstance(state, str) else posterior.state_number(state)
    if isinstance(action, str) and action not in table.action_names:
        raise PolinferError(
            f"there is no action {action!r}{suggest(action, table.action_names)}; "
            f"there are {', '.join(table.action_names[:10])}"
        )
    chosen = table.action_names.index(action) if isinstance(action, str) else int(action)
    if not 0 <= chosen < table.num_actions:
        raise PolinferError(f"action {chosen} is outside 0..{table.num_actions - 1}")
    if table.absorbing[number]:
        raise PolinferError(f"nothing is chosen in {table.state_names[number]!r}: the episode is over there")
    if not table.legal_actions[number, chosen]:
        raise PolinferError(
            f"action {table.action_names[chosen]!r} is not legal in {table.state_names[number]!r}, so no "
            "policy takes it"
        )
    return number, chosen


def _held(posterior: Posterior, made: dict[int, int]) -> Any:
    known = posterior.policies
    if known is None or known.sampled_policies is None:
        return None
    drawn = known.sampled_policies
    return np.all([drawn[:, state] == action for state, action in made.items()], axis=0)


def _infer(
    posterior: Posterior, problem: Any, names: dict[str, str], log_prior: float, made: dict[int, int]
) -> Posterior:
    before, restricted = posterior.policies, shared_table(problem)
    if (restricted.legal_actions.sum(axis=1) > 1).any() and _has_choice(restricted):
        found: Posterior = _INFER[-1](problem, posterior.config, seed=posterior.seed, seeds=posterior.seeds)
    else:
        found = _INFER[-1](problem, "exact", seed=posterior.seed)
    after = found.policies
    if before is None or after is None:
        return replace(found, condition=Condition(names, *_product(posterior, made), "inference"))
    log_probability = min(0.0, log_prior + after.log_evidence - before.log_evidence)
    stderr = float(np.hypot(before.log_evidence_stderr, after.log_evidence_stderr))
    return replace(found, condition=Condition(names, log_probability, stderr, "inference"))


def _has_choice(table: TabularMDP) -> bool:
    return len(choices_of(table).state) > 0


def _product(posterior: Posterior, made: dict[int, int]) -> tuple[float, float]:
    """Return the log probability under a proposal, whose choices are independent."""
    probs = posterior.table_probs()
    assert probs is not None
    each = np.prod([probs[:, state, action] for state, action in made.items()], axis=0)
    mean = max(float(each.mean()), 1e-300)
    return float(np.log(mean)), float(each.std() / np.sqrt(len(each)) / mean)


def _from_sample(
    posterior: Posterior, problem: Any, names: dict[str, str], log_prior: float, held: Any
) -> Posterior:
    known, table = posterior.policies, shared_table(problem)
    assert known is not None
    assert known.sampled_policies is not None
    sample = known.sampled_policies[held]
    count, share = len(sample), float(held.mean())
    returns = deterministic_returns(table, sample)
    acting = choices_of(table).state
    policy = np.array(table.prior)
    policy[acting] = (sample[:, acting, None] == np.arange(table.num_actions)).mean(axis=0)
    policy /= policy.sum(axis=1, keepdims=True)
    of_draws = np.sqrt((1 - share) / (share * len(held)))
    log_evidence = known.log_evidence + float(np.log(share)) - log_prior
    whole = describe_sample(
        table,
        sample,
        returns,
        policy=policy,
        log_evidence=log_evidence,
        log_evidence_stderr=float(np.hypot(known.log_evidence_stderr, of_draws)),
        expected_return=float(returns.mean()),
        expected_return_stderr=float(returns.std() / np.sqrt(count)),
        policy_stderr=np.sqrt(policy * (1 - policy) / count),
        reach_policy=reach_policy(policy, acting, sample, visits_of(table, sample)),
        seed=posterior.seed,
    )
    rows = np.log(np.maximum(policy, 1e-38))[None]
    return replace(
        posterior,
        mdp=problem,
        view=table,
        proposal=TableProposal(jnp.asarray(rows, jnp.float32)),
        policies=whole,
        condition=Condition(names, float(np.log(share)), float(of_draws), "sample"),
    )


def _infer_without_table(posterior: Posterior, pairs: list[tuple[Any, Any]], source: Source) -> Posterior:
    """Condition a simulator: states are compared as they are, or by their encoding's identity."""
    if source == "sample":
        raise PolinferError("a problem without a table has no sample to condition; use source='inference'")
    if isinstance(posterior.mdp, MDP):
        raise PolinferError(
            "conditioning needs a problem that fits a table, or a simulator in plain Python whose states can "
            "be compared"
        )
    simulator, made = posterior.mdp, {state: int(action) for state, action in pairs}

    def log_prior(state: Any) -> Any:
        with np.errstate(divide="ignore"):
            plain = np.log(prior_of(simulator, state))
        if state not in made:
            return plain
        return np.where(np.arange(len(plain)) == made[state], plain, -np.inf)

    problem = with_terms(simulator, prior=log_prior)
    found: Posterior = _INFER[-1](problem, posterior.config, seed=posterior.seed, seeds=posterior.seeds)
    chance = posterior.probability(made)
    names = {str(state): str(action) for state, action in made.items()}
    log_probability = float(np.log(max(chance.probability, 1e-300)))
    stderr = chance.stderr / max(chance.probability, 1e-300)
    return replace(found, condition=Condition(names, log_probability, stderr, "inference"))
