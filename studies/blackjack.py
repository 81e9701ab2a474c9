"""The paper's Blackjack section at a reduced budget: every row of its table, and the exact ones beside.

    python studies/blackjack.py [--seeds 3] [--sweeps 20000] [--steps 300000] [--out runs/blackjack-study]

Prints the table as Markdown and writes ``outcomes.png`` and ``charts.png``.  Every trained row is a run
folder under --out: stopped at any moment, the same command goes on where it was.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import polinfer
from polinfer import exact
from polinfer.plots import PolicyPanel, hit_margin, save_figure, strategy_chart_figure
from polinfer.plots.style import INK, SMALL_SIZE, TEXT_SIZE, line_colour, style_axes
from polinfer.posterior.saving import CONFIG
from polinfer.runs.folder import infer_in_folder

ENDINGS = ("loss", "draw", "win")
# Return, loss, draw, win: the means of the paper's Table "Blackjack: policy statistics".
PRINTED = {
    "VSMC": (-0.19, 0.57, 0.05, 0.38),
    "VSMC, rewards x10": (-0.14, 0.54, 0.05, 0.41),
    "VSMC, rewards x100": (-0.12, 0.53, 0.06, 0.41),
    "SAC, alpha=1": (-0.32, 0.63, 0.06, 0.31),
    "SAC, alpha=0.1": (-0.15, 0.54, 0.07, 0.39),
    "SAC, alpha=0.01": (-0.08, 0.50, 0.08, 0.42),
    "optimal": (-0.06, 0.49, 0.09, 0.42),
}


class Row(NamedTuple):
    name: str
    policies: np.ndarray  # [seeds, S, A]
    returns: np.ndarray  # [seeds]
    endings: dict[str, np.ndarray]  # each [seeds]


def evaluate(table: polinfer.TabularMDP, name: str, policies: np.ndarray) -> Row:
    values = [exact.evaluate_policy(table, policy) for policy in policies]
    endings = {ending: np.array([value.endings[ending] for value in values]) for ending in ENDINGS}
    return Row(name, policies, np.array([value.expected_return for value in values]), endings)


def train(folder: Path, name: str, config: polinfer.MethodConfig, seeds: int, scale: float) -> np.ndarray:
    run = folder / name.replace(", ", "-").replace(" ", "-").replace("=", "")
    mdp = polinfer.make("blackjack", reward_scale=scale)
    resume = (run / CONFIG).exists()
    run.mkdir(parents=True, exist_ok=True)

    def report(now: polinfer.Report) -> None:
        print(f"\r{name}: {now.done:,}   ", end="", flush=True)

    posterior = infer_in_folder(mdp, config, run, seeds=seeds, resume=resume, progress=report)
    print()
    probs = posterior.table_probs()
    assert probs is not None
    return np.asarray(probs / probs.sum(axis=-1, keepdims=True), np.float64)


def outcome_figure(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(9.6, 2.8), layout="constrained", facecolor="white")
    ax = figure.add_subplot()
    style_axes(ax)
    place = np.arange(len(rows))
    for index, ending in enumerate(ENDINGS):
        heights = [row.endings[ending].mean() for row in rows]
        spread = [row.endings[ending].std() for row in rows]
        shift = (index - 1) * 0.27
        ax.bar(place + shift, heights, 0.25, yerr=spread, color=line_colour(index), label=ending, ecolor=INK)
    ax.set_xticks(place, [row.name.replace(",", "").replace(" ", "\n") for row in rows], fontsize=SMALL_SIZE)
    ax.set_ylabel("probability", fontsize=TEXT_SIZE, color=INK)
    ax.legend(fontsize=SMALL_SIZE, frameon=False, ncols=3, loc="upper right")
    ax.set_ylim(0, 0.8)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--out", type=Path, default=Path("runs/blackjack-study"))
    given = parser.parse_args()
    mdp = polinfer.make("blackjack")
    table = polinfer.tabulate(mdp)

    rows = []
    for scale in (1, 10, 100):
        name = "VSMC" if scale == 1 else f"VSMC, rewards x{scale}"
        policies = train(given.out, name, polinfer.VsmcConfig(sweeps=given.sweeps), given.seeds, scale)
        rows.append(evaluate(table, name, policies))
    for alpha in (1.0, 0.1, 0.01):
        name = f"SAC, alpha={alpha:g}"
        config = polinfer.SacConfig(preset="a", alpha=alpha, gamma=1.0, steps=given.steps)
        policies = train(given.out, name, config, given.seeds, 1)
        rows.append(evaluate(table, name, policies))
    print("exact answers")
    answers = {
        "optimal": exact.finite_horizon_optimum(table),
        "exact soft, alpha=1": exact.soft_stationary(table, 1.0),
        "exact soft, alpha=0.1": exact.soft_stationary(table, 0.1),
        "exact soft, alpha=0.01": exact.soft_stationary(table, 0.01),
        "statewise posterior": exact.statewise_posterior(table),
        "Gibbs policy": exact.gibbs_policy(table),
        "uniform": None,
    }
    for name, answer in answers.items():
        policy = exact.uniform_policy(table) if answer is None else answer.policy
        rows.append(evaluate(table, name, policy[None]))

    print(
        "\n| | return | loss | draw | win | the paper: return, loss, draw, win |\n|---|---|---|---|---|---|"
    )
    for row in rows:
        many = len(row.returns) > 1
        spread = f" ± {row.returns.std():.3f}" if many else ""
        shares = " | ".join(f"{row.endings[ending].mean():.3f}" for ending in ENDINGS)
        printed = PRINTED.get(row.name)
        told = "" if printed is None else f"{printed[0]:.2f}, " + ", ".join(f"{p:.2f}" for p in printed[1:])
        print(f"| {row.name} | {row.returns.mean():.3f}{spread} | {shares} | {told} |")

    save_figure(outcome_figure(rows), given.out / "outcomes.png")
    named = {row.name: row for row in rows}
    shown = ("optimal", "statewise posterior", "exact soft, alpha=1", "VSMC")
    nothing = np.zeros(table.num_states)
    panels = [PolicyPanel(name, named[name].policies, nothing) for name in shown]
    margins = [hit_margin(table) if name == "optimal" else None for name in shown]
    save_figure(strategy_chart_figure(mdp, table, panels, margins), given.out / "charts.png")
    print(f"\nfigures: {given.out / 'outcomes.png'}, {given.out / 'charts.png'}")


if __name__ == "__main__":
    main()
