"""Plain words about a posterior: what it estimates, and when not to trust it."""

from __future__ import annotations

import numpy as np

from polinfer.actor_critic.oracle import soft_oracle
from polinfer.exact.evaluation import uniform_policy
from polinfer.exact.solution import PolicyPosterior
from polinfer.posterior.posterior import Posterior
from polinfer.posterior.trace import SacTrace, Trace
from polinfer.problems.tabular.table import TabularMDP

_LOW_ESS = 0.3  # share of the particles, step by step
_FEW = 10  # effective policies in a sweep with exact weights: sweeps are averaged
_LOW_ANCESTORS = 0.15
_SPREAD = 0.1
_UNMOVED = 0.05
_CLOSE = 0.05
_WIDE = 0.3  # standard error of log Z


def diagnose(posterior: Posterior) -> list[str]:
    """Return a verdict and the findings behind it, one sentence each."""
    if posterior.method == "exact":
        assert posterior.policies is not None
        return [
            "Trust: exact.",
            f"All {posterior.policies.num_policies:,} policies were enumerated in double precision.",
        ]
    if posterior.policies is not None:
        return _diagnose_sample(posterior, posterior.policies)
    if posterior.method == "sac":
        return _diagnose_sac(posterior)
    warnings: list[str] = []
    trace = posterior.trace
    assert isinstance(trace, Trace)
    if len(trace.sweeps) == 0:
        return ["Do not trust: the proposal was not trained."]
    last = max(1, len(trace.sweeps) // 5)
    evidence = trace.log_evidence[-last:].mean(axis=0)
    before = (
        trace.log_evidence[-2 * last : -last].mean(axis=0) if len(trace.sweeps) >= 2 * last + 1 else evidence
    )
    noise = trace.log_evidence[-last:].std(axis=0) + 1e-6
    if last > 1 and ((evidence - before) > 2 * noise).mean() > 0.5:
        warnings.append(
            f"log Z-hat was still rising at the end, by {float((evidence - before).mean()):.3f} over the "
            "last fifth: train for more sweeps."
        )
    if len(evidence) > 1 and evidence.std() > _SPREAD * max(1.0, abs(float(evidence.mean()))):
        warnings.append(
            f"Seeds end at different log Z-hat ({evidence.min():.3f} to {evidence.max():.3f}): "
            "some have not found what others have."
        )
    settings = posterior.settings.get("train", {})
    particles, worlds = (int(settings.get("sweep", {}).get(name, 1)) for name in ("particles", "worlds"))
    exactly = settings.get("weights") == "exact"
    if particles > 1:
        if float(trace.ess[-last:].mean()) < (_FEW / particles if exactly else _LOW_ESS):
            warnings.append(
                f"The effective sample size is {100 * float(trace.ess[-last:].mean()):.0f}% of {particles} "
                "particles on average: few carry the weight; use more, or a smaller reward scale."
            )
        if float(trace.unique_ancestors[-last:].mean()) < _LOW_ANCESTORS:
            warnings.append(
                "Nearly all particles descend from one first choice: the early actions of a sweep are poorly "
                "represented; use more particles or resample less."
            )
    table = posterior.table_probs()
    if table is not None and posterior.seeds > 1:
        acting = ~posterior.view.absorbing if isinstance(posterior.view, TabularMDP) else slice(None)
        spread = float(np.abs(table - table.mean(axis=0))[:, acting].sum(axis=-1).mean() / 2)
        if spread > _SPREAD:
            warnings.append(
                f"Seeds disagree: their policies are {spread:.2f} (total variation) from their mean."
            )
    if table is not None and isinstance(posterior.view, TabularMDP):
        even = uniform_policy(posterior.view)
        moved = float(np.abs(table.mean(axis=0) - even)[~posterior.view.absorbing].sum(axis=-1).mean() / 2)
        if moved < _UNMOVED and not exactly:
            warnings.append(
                f"The policy has hardly left the uniform one (total variation {moved:.3f}): train for more "
                "sweeps or at a higher learning rate."
            )
        start = settings.get("sweep", {}).get("start", "shared")
        if (posterior.view.initial > 0).sum() > 1 and not exactly and start != "averaged":
            warnings.append(
                "The start is random: each sweep conditions on one start, so J is that of the start drawn."
            )
    verdict = "Use with care." if not warnings else "Do not trust without a second look."
    facts = [_about_worlds(worlds, exactly)]
    if settings.get("surrogate_share", 0) > 0:
        facts.append(
            f"The surrogate has a share of {settings['surrogate_share']:g} in what was ascended: this brings "
            "log Z-hat up, and the policy away from the posterior."
        )
    if table is None:
        facts.append("Without a table, nobody looked whether the policy has left the uniform one.")
    return [verdict, *warnings, *facts]


def _about_worlds(worlds: int, exactly: bool) -> str:
    if exactly:
        target = "Policies were weighed by their exact J: the target is exp(E[R]), the paper's definition"
    elif worlds == 1:
        target = (
            "With one world per sweep, an average over sweeps tends to E[softmax R], not to exp(E[R]) where "
            "transitions are random"
        )
    else:
        target = (
            f"Policies were judged in {worlds:,} worlds per sweep: with more, the target comes nearer to "
            "exp(E[R]) where transitions are random"
        )
    return f"{target}; and q is a mean-field answer: independent choices in different states."


def _diagnose_sac(posterior: Posterior) -> list[str]:
    settings, trace = posterior.settings["sac"], posterior.trace
    assert isinstance(trace, SacTrace)
    alpha = float(trace.alpha[-1].mean()) if settings["autotune"] else settings["alpha"]
    about = (
        f"This is no posterior: the policy maximises return plus {alpha:g} times its entropy, "
        f"discounted by {settings['gamma']:g}."
    )
    oracle = soft_oracle(posterior)
    if oracle is None:
        return ["Use with care.", "The problem has no table, so there is no exact answer beside it.", about]
    if oracle.distances is None:
        return [
            "Do not trust.",
            f"With alpha {oracle.alpha:g} and gamma {oracle.gamma:g} staying alive pays for ever: there is "
            "no answer to find; use gamma below 1 or a smaller alpha.",
            about,
        ]
    mean, worst = float(oracle.distances.mean()), float(oracle.distances.max())
    found = (
        f"Exact soft value iteration is {mean:.3f} away (mean total variation over states"
        + (f"; {worst:.3f} for the worst of {posterior.seeds} seeds" if posterior.seeds > 1 else "")
        + ")."
    )
    if worst <= _CLOSE:
        return ["Trust, as the baseline that it is.", found, about]
    return ["Use with care.", found + " Train for more steps, or with preset b if it was a.", about]


def _diagnose_sample(posterior: Posterior, whole: PolicyPosterior) -> list[str]:
    assert isinstance(posterior.view, TabularMDP)
    acting = ~posterior.view.absorbing
    errors = np.zeros((1, 1)) if whole.policy_stderr is None else whole.policy_stderr[acting]
    worst, typical = float(errors.max(initial=0.0)), float(errors.sum(axis=-1).mean() / 2)
    found = [
        f"log Z {whole.log_evidence:.3f} ± {whole.log_evidence_stderr:.3f}; the marginal policy has a "
        f"standard error of {typical:.3f} (total variation, mean over states), at most {worst:.3f} for one "
        "action."
    ]
    by_worlds = posterior.method == "particles" and posterior.settings["particles"].get("weights") != "exact"
    if by_worlds:
        worlds = posterior.settings["particles"]["sweep"]["worlds"]
        found.append(
            f"Each policy was judged in {worlds:,} worlds: with fewer, luck counts as evidence, and log Z is "
            "that of so many worlds."
        )
    elif posterior.settings.get("tempered", {}).get("rollouts") is not None:
        rollouts = posterior.settings["tempered"]["rollouts"]
        found.append(
            f"Each policy was judged by {rollouts:,} rollouts: with fewer, luck counts as evidence, and log "
            "Z is that of so many rollouts."
        )
    else:
        found.append("Every policy was evaluated exactly: the target is exp(J), the paper's definition.")
    if whole.log_evidence_stderr > _WIDE or typical > _CLOSE:
        return ["Use with care.", *found, "Use more policies or islands, or more particles and sweeps."]
    return ["Trust, within the standard errors.", *found]
