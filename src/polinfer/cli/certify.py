"""`polinfer certify`: how far an answer can be relied upon, or how another policy compares with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich import box
from rich.markup import escape
from rich.table import Table

from polinfer.analysis.certificate import Certificate, certify
from polinfer.analysis.judgement import Effort
from polinfer.analysis.policy_certificate import PolicyCertificate, certify_policy
from polinfer.analysis.summary import certificate_record
from polinfer.cli.output import OutputFlags, print_json, progress_bar, tables
from polinfer.cli.problem_flags import ProblemFlags
from polinfer.core.errors import PolinferError
from polinfer.core.formatting import number, with_error
from polinfer.core.progress import watching
from polinfer.problems.tables import shared_table
from polinfer.problems.tabular.policy_files import read_policy
from polinfer.runs.folder import load


@dataclass(frozen=True)
class Certify(OutputFlags):
    """Judge a run again, or compare a policy of your own with the posterior of a problem.

    Examples: 'polinfer certify runs/demo --effort thorough', 'polinfer certify my_mdp.npz --policy mine.csv'.
    """

    problem: tyro.conf.OmitArgPrefixes[ProblemFlags]
    policy: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A policy to compare with the posterior of DOMAIN: .npy or .npz ([S] actions or [S, A] probabilities),
    .json, or .csv with columns state, action and, where it is stochastic, probability.  Without it, DOMAIN
    is the folder of a run."""
    effort: Effort = "default"
    """How much it may take: about as long as the answer, or ten times as long (thorough)."""
    seed: int = 0
    """Of the runs that are compared with."""
    code: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Code that a run's problem may import, as its config.json names it; a folder alone never runs any."""

    def run(self) -> None:
        """Judge and print."""
        if self.policy is None:
            self._judge_run()
        else:
            self._judge_policy(self.policy)

    def _judge_run(self) -> None:
        folder = Path(self.problem.domain)
        if not folder.is_dir():
            raise PolinferError(
                f"{folder} is no run folder; 'polinfer plan' makes one, and --policy FILE compares a policy "
                "with the posterior of a problem"
            )
        if self.problem.options:
            raise PolinferError(
                f"{next(iter(self.problem.options))} is part of the run and cannot be changed"
            )
        posterior = load(folder, code=self.code)
        with progress_bar() as checking, watching(checking):
            found = certify(posterior, seed=self.seed, effort=self.effort)
        if self.json:
            print_json({"run": str(folder), "method": posterior.method, **certificate_record(found)})
            return
        tables().print(certificate_table(f"{folder.name}, {posterior.method}", found))

    def _judge_policy(self, path: Path) -> None:
        mdp = self.problem.make()
        policy = read_policy(path, shared_table(mdp))
        found = certify_policy(mdp, policy, seed=self.seed, effort=self.effort)
        if self.json:
            print_json({"domain": self.problem.domain, "policy": str(path), **_policy_record(found)})
            return
        tables().print(policy_table(f"{path.name} on {self.problem.domain}", found))


def certificate_table(title: str, found: Certificate) -> Table:
    """Return a certificate as people read it."""
    table = _facts(f"{title}: {found.verdict}")
    rows: list[tuple[str, str | None]] = [
        ("reason", found.reason),
        ("remedy", found.remedy or None),
        ("log Z, proven", _interval(found.proven_lower, found.proven_upper)),
        ("log Z, estimated", _estimated(found)),
        (
            "held by policies found",
            None if found.proven_share is None else f"{100 * found.proven_share:.1f}%",
        ),
        ("distance", _known(found)),
        ("what it estimates", str(found.estimand)),
    ]
    for name, text in rows:
        if text is not None:
            table.add_row(name, escape(text))
    return table


def policy_table(title: str, found: PolicyCertificate) -> Table:
    """Return the comparison of a policy with the posterior as people read it."""
    table = _facts(title)
    text = str(found)
    table.add_row("verdict", escape(text[:1].upper() + text[1:] + "."))
    returns = (
        f"uniform {found.uniform_return:.4g}, this {found.expected_return:.4g}, "
        f"posterior {found.posterior_return:.4g}, optimum {found.optimal_return:.4g}"
    )
    table.add_row("returns", returns)
    for place, one in enumerate(found.differences):
        table.add_row(
            "differs most in" if place == 0 else "",
            escape(
                f"{one.state}: takes {one.action} (posterior {one.posterior_probability:.3f}), most probable "
                f"is {one.posterior_action}; {100 * one.share:.0f}% of the distance"
            ),
        )
    table.add_row("the posterior", escape(f"{found.posterior_verdict}: {found.reason}"))
    return table


def _facts(title: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    return table


def _interval(lower: float | None, upper: float | None) -> str | None:
    return None if lower is None or upper is None else f"{number(lower)} to {number(upper)}"


def _estimated(found: Certificate) -> str | None:
    value = found.log_evidence_lower
    return None if value is None else with_error(value, found.log_evidence_stderr)


def _known(found: Certificate) -> str | None:
    return None if found.distance is None else f"{found.distance:.4f} from the {found.known_from}"


def _policy_record(found: PolicyCertificate) -> dict[str, Any]:
    return {
        **found._asdict(),
        "differences": [one._asdict() for one in found.differences],
        "posterior_verdict": str(found.posterior_verdict),
        "sentence": str(found),
    }
