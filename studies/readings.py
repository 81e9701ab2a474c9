"""What the paper does not print, as factors, screened exactly against all that it does print.

    python studies/readings.py

Prints the tables of docs/readings.md, in some minutes.  Nothing is trained: soft value iteration stands for
SAC, which ends near it, and uniform choices and the optimum bound what a learner may find on Advising.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

import numpy as np

import polinfer
from polinfer import exact
from polinfer.problems.tabular import TabularMDP
from polinfer.problems.tabular.terms import uniform_prior
from polinfer.reproduce.answers import answer
from polinfer.reproduce.experiment import Printed
from polinfer.reproduce.experiments import EXPERIMENTS
from polinfer.reproduce.unit import Unit

TIRES = (1, 4, 7, 10)
STEP = -0.1


def printed(experiment: str, column: str) -> dict[str, Printed]:
    """Return the numbers of a column that the paper prints, by the key of their rows."""
    rows = EXPERIMENTS[experiment].rows
    return {r.key: r.printed[column] for r in rows if column in r.printed and r.reading != "continue"}


def with_noops(table: TabularMDP) -> TabularMDP:
    """Make illegal actions legal ones that do nothing and cost a step."""
    illegal = ~table.legal_actions & ~table.absorbing[:, None]
    reward = table.reward.copy()
    reward[illegal] = STEP
    legal = np.ones_like(table.legal_actions)
    # The reference measure, too, or the soft policy would be held to the old one instead of paid for entropy.
    return table._changed(legal_actions=legal, prior=uniform_prior(legal), reward=reward)


def tire_tables() -> Iterator[tuple[dict[str, str], dict[int, TabularMDP]]]:
    """Yield the variants of Tireworld."""
    for stuck, horizon, actions in itertools.product(("ends", "waits"), (20, 40), ("legal", "all")):
        tables = {
            n: polinfer.tabulate(polinfer.make(f"tireworld/{n}", stuck=stuck, horizon=horizon)) for n in TIRES
        }
        if actions == "all":
            tables = {n: with_noops(table) for n, table in tables.items()}
        yield {"stuck": stuck, "horizon": str(horizon), "actions": actions}, tables


def soft_return(table: TabularMDP, alpha: float, gamma: str, absorbing: str) -> float:
    """Return what the exact soft policy earns: discounted for ever, or over the horizon with gamma 1."""
    if gamma == "1":
        solution = exact.soft_value_iteration(table, alpha, absorbing=absorbing)  # type: ignore[arg-type]
        policy = solution.stages
    else:
        policy = exact.soft_stationary(table, alpha, float(gamma), absorbing=absorbing).policy  # type: ignore[arg-type]
    return float(exact.evaluate_policy(table, policy).expected_return)


def screen_tireworld() -> None:
    """Screen readings of SAC on Tireworld: eight printed returns."""
    told = printed("tireworld", "base_mean")
    found = []
    for variant, tables in tire_tables():
        for gamma, absorbing in itertools.product(("0.99", "0.9", "1"), ("end", "continue")):
            ours = {(n, a): soft_return(tables[n], a, gamma, absorbing) for n in TIRES for a in (1.0, 0.2)}
            apart = {
                alpha: math.sqrt(
                    np.mean([(ours[n, alpha] - told[f"{n} sac {alpha:g}"].mean) ** 2 for n in TIRES])
                )
                for alpha in (1.0, 0.2)
            }
            found.append(({**variant, "gamma": gamma, "absorbing": absorbing}, ours, apart))
    found.sort(key=lambda one: one[2][1.0])
    print(f"\n## Tireworld, SAC: {len(found)} combinations; root mean square of the difference in return\n")
    head = [*found[0][0], "alpha 1: 1, 4, 7, 10", "apart", "alpha 0.2: 1, 4, 7, 10", "apart"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for variant, ours, apart in found:
        cells = [*variant.values()]
        for alpha in (1.0, 0.2):
            cells += [", ".join(f"{ours[n, alpha]:.2f}" for n in TIRES), f"{apart[alpha]:.2f}"]
        print("| " + " | ".join(cells) + " |")
    for alpha in (1.0, 0.2):
        numbers = ", ".join(f"{told[f'{n} sac {alpha:g}'].mean:.2f}" for n in TIRES)
        print(f"\nThe paper, alpha {alpha:g}: {numbers}")


def check_tireworld() -> None:
    """Solve return = 20 success - 10 - 0.1 length for the length that each printed row implies."""
    earned, arrived = printed("tireworld", "base_mean"), printed("tireworld", "success")
    print("\n## Tireworld: the mean length that return and success imply, if every episode ends\n")
    for key, value in earned.items():
        length = (20 * arrived[key].mean - 10 - value.mean) / -STEP
        print(f"| {key} | {value.mean:.2f} | {arrived[key].mean:.2f} | {length:.1f} |")


def screen_blackjack() -> None:
    """Screen rules, discounts and readings of Blackjack, and the plain policies that its rows look like."""
    print("\n## Blackjack: return, loss, draw, win\n")
    for sab, natural in ((True, False), (False, False), (False, True)):
        table = polinfer.tabulate(polinfer.make("blackjack", sab=sab, natural=natural))
        rules = f"sab={sab}, natural={natural}"
        show(f"{rules}: optimum", table, exact.stationary_optimum(table).policy)
        for alpha, gamma, absorbing in itertools.product((1.0, 0.1, 0.01), (0.99,), ("end", "continue")):
            policy = exact.soft_stationary(table, alpha, gamma, absorbing=absorbing).policy  # type: ignore[arg-type]
            show(f"{rules}: soft, alpha {alpha:g}, {absorbing}", table, policy)
    table = polinfer.tabulate(polinfer.make("blackjack"))
    # "hard 12 vs ace"; what has no number there, a natural or an end, sticks.
    seen = [re.search(r"\d+", name.split(" vs ")[0]) for name in table.state_names]
    sums = np.array([int(number[0]) if number else 21 for number in seen])
    stick, hit = (table.action_names.index(name) for name in ("stick", "hit"))
    for least in (0, 12, 14, 16, 17, 18, 20):
        policy = np.zeros((table.num_states, table.num_actions))
        policy[np.arange(table.num_states), np.where(sums >= least, stick, hit)] = 1.0
        show(f"stick from {least}" if least else "always stick", table, policy)
    show("uniform", table, exact.uniform_policy(table))
    for share in (0.6, 0.7, 0.8, 0.9, 0.95):
        policy = np.zeros((table.num_states, table.num_actions))
        policy[:, stick], policy[:, hit] = share, 1 - share
        show(f"stick with probability {share:g} everywhere", table, policy)


def show(name: str, table: TabularMDP, policy: np.ndarray) -> None:
    """Print a line of Blackjack."""
    value = exact.evaluate_policy(table, policy)
    ends = " / ".join(f"{value.endings[e]:.3f}" for e in ("loss", "draw", "win") if e in value.endings)
    print(f"| {name} | {value.expected_return:.3f} | {ends} |", flush=True)


def screen_advising() -> None:
    """Screen the rules of Advising 1 and 3: VSMC's mean has to lie between uniform choices and the best."""
    told = {n: printed("advising", "mean")[f"{n} vsmc"].mean for n in (1, 3)}
    print(f"\n## Advising: optimum .. soft, alpha 1 .. uniform, relevant courses; the paper's VSMC: {told}\n")
    rules = list(
        itertools.product(
            (1, 2), ("any", "unpassed", "prepared"), (True, False), ("after", "before"), (40, 20)
        )
    )
    for load, eligible, empty, judged, horizon in rules:
        cells = []
        for n, mean in told.items():
            mdp = polinfer.make(
                f"advising/{n}",
                relevant_only=True,
                load=load,
                eligible=eligible,
                allow_empty=empty,
                penalty_judged=judged,
                horizon=horizon,
            )
            table = polinfer.tabulate(mdp)
            best = exact.finite_horizon_optimum(table).objective
            soft = soft_return(table, 1.0, "0.99", "end")
            even = exact.evaluate_policy(table, exact.uniform_policy(table)).expected_return
            cells.append(f"{best:.1f} .. {soft:.1f} .. {even:.1f}{'' if even <= mean <= best else ' *'}")
        words = (str(load), eligible, "yes" if empty else "no", judged, str(horizon))
        print("| " + " | ".join((*words, *cells)) + " |", flush=True)
    print(f"\n{len(rules)} combinations; * the paper's VSMC is not between optimum and uniform choices")


def screen_advising_by_chance() -> None:
    """Play uniform choices on whole programs under several rules: 1, 2 and 3."""
    told = {n: printed("advising", "mean")[f"{n} vsmc"].mean for n in (1, 2, 3)}
    print(f"\n## Advising: uniform choices, all courses, 2,000 episodes; the paper's VSMC: {told}\n")
    for rules in (
        {},
        {"allow_empty": False},
        {"eligible": "prepared"},
        {"eligible": "prepared", "allow_empty": False},
        {"eligible": "any"},
        {"load": 1},
        {"load": 1, "eligible": "prepared", "allow_empty": False},
    ):
        means = []
        for n in told:
            unit = Unit(f"advising/{n}", "chance", rules, {"episodes": 2_000})
            found = answer(unit)
            means.append(" / ".join(f"{float(found[what][0]):.0f}" for what in ("mean", "q05", "q95")))
        print(f"| {rules} | " + " | ".join(means) + " |", flush=True)


if __name__ == "__main__":
    check_tireworld()
    screen_blackjack()
    screen_tireworld()
    screen_advising()
    screen_advising_by_chance()
