"""`from_rddl`, and the scheme ``rddl:`` of `polinfer.make`: problems written in RDDL, compiled by JaxPlan."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

from polinfer.core.errors import DomainError, check_at_least, check_finite, suggest
from polinfer.problems.adapters.rddl_model import MAX_ACTIONS, RddlMDP

_OPTIONS = ("horizon", "reward_scale", "max_actions")


def from_rddl(
    domain: str | Path,
    instance: str | Path | int,
    *,
    horizon: int | None = None,
    reward_scale: float = 1.0,
    max_actions: int = MAX_ACTIONS,
) -> RddlMDP:
    """Return an RDDL problem as an MDP that is compiled by JAX.

    Any MDP will do whose actions and state fluents are Boolean, enumerated or integer; what lies between
    (interm and derived fluents) may be anything.  Actions are the sets of at most ``max-nondef-actions``
    grounded action fluents that differ from their defaults, the empty set (``no-op``) first; those that break
    an action precondition are not legal.  The instance's discount is that of the problem; ``discount=1`` of
    `polinfer.make` takes it away.  Needs the extra packages of ``pip install 'polinfer[rddl]'``.

    Parameters
    ----------
    domain
        The path of a domain file, or the name of a problem of rddlrepository.
    instance
        The path of an instance file, or the number of an instance of rddlrepository.
    horizon
        The largest number of steps in an episode; the instance's own by default.
    reward_scale
        A factor on every reward.
    max_actions
        The largest number of actions to write out.

    Raises
    ------
    DomainError
        Where the problem cannot be found, read, or planned in, with what to do about it.
    """
    check_at_least("max_actions", max_actions, 1)
    check_finite("reward_scale", reward_scale)
    name = f"{domain}/{instance}"
    packages = _import_packages()
    domain_path, instance_path = _find(str(domain), str(instance))
    with _kept_quiet():
        model = _parse(packages, domain_path, instance_path)
        _check_kind(model, name)
        steps = check_at_least("horizon", model.horizon if horizon is None else horizon, 1)
        try:
            compiler = packages["pyRDDLGym_jax.core.compiler"].JaxRDDLCompiler(model, use64bit=False)
            compiler.compile()
        except Exception as error:
            raise DomainError(f"RDDL problem {name} cannot be compiled: {_line(error)}") from error
        texts = (domain_path.read_bytes(), instance_path.read_bytes())
        mdp = RddlMDP(name, model, compiler, texts, steps, float(reward_scale), int(max_actions))
    return mdp


def make_rddl(address: str, **options: Any) -> RddlMDP:
    """Make a problem from ``NAME/INSTANCE`` of rddlrepository, or from ``DOMAIN.rddl,INSTANCE.rddl``."""
    for option in options:
        if option not in _OPTIONS:
            raise DomainError(
                f"rddl: has no option {option!r}{suggest(option, _OPTIONS)}; it has {', '.join(_OPTIONS)}"
            )
    domain, comma, instance = address.partition(",")
    if not comma:
        domain, _, instance = address.rpartition("/")
    if not domain.strip() or not instance.strip():
        raise DomainError(
            f"rddl: needs a problem and an instance, or two files, got {address!r}; write "
            "rddl:TriangleTireworld_MDP_ippc2014/1 or rddl:domain.rddl,instance.rddl"
        )
    return from_rddl(domain.strip(), instance.strip(), **options)


def _import_packages() -> dict[str, Any]:
    names = (
        "ply.yacc",
        "pyRDDLGym.core.parser.parser",
        "pyRDDLGym.core.parser.reader",
        "pyRDDLGym.core.compiler.model",
        "pyRDDLGym_jax.core.compiler",
        "rddlrepository.core.manager",
    )
    try:
        with _kept_quiet():
            return {name: importlib.import_module(name) for name in names}
    except ImportError as error:
        raise DomainError(
            f"RDDL problems need packages that are not installed ({_line(error)}); "
            "run pip install 'polinfer[rddl]'"
        ) from None


@contextlib.contextmanager
def _kept_quiet() -> Iterator[None]:
    """Keep what the packages print off standard output, and undo what they do to JAX."""
    # Their compiler sets the precision of the whole process.  A new thread sees that, not a local setting.
    with ThreadPoolExecutor(1) as thread:
        before = thread.submit(lambda: bool(jax.config.jax_enable_x64)).result()  # type: ignore[attr-defined]
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            # They warn of bounds that they cannot read off a constraint, and of what they import.
            warnings.simplefilter("ignore")
            yield
    finally:
        jax.config.update("jax_enable_x64", before)  # type: ignore[no-untyped-call]


def _find(domain: str, instance: str) -> tuple[Path, Path]:
    """Return the files of a problem."""
    files = Path(domain), Path(instance)
    if domain.endswith(".rddl") or instance.endswith(".rddl"):
        for path in files:
            if not path.is_file():
                raise DomainError(
                    f"RDDL file {str(path)!r} does not exist; give a domain and an instance file"
                )
        return files
    manager = importlib.import_module("rddlrepository.core.manager").RDDLRepoManager()
    known = manager.list_problems()
    if domain not in known:
        raise DomainError(
            f"unknown RDDL problem {domain!r}{suggest(domain, known)}; rddlrepository has {len(known)}, "
            "and a file ends in .rddl"
        )
    problem = manager.get_problem(domain)
    if instance not in problem.list_instances():
        listed = ", ".join(problem.list_instances())
        raise DomainError(f"RDDL problem {domain} has no instance {instance!r}; it has {listed}")
    return Path(problem.get_domain()), Path(problem.get_instance(instance))


def _parse(packages: dict[str, Any], domain: Path, instance: Path) -> Any:
    try:
        text = packages["pyRDDLGym.core.parser.reader"].RDDLReader(str(domain), str(instance)).rddltxt
        parser = packages["pyRDDLGym.core.parser.parser"].RDDLParser(lexer=None, verbose=False)
        # No files beside the installed package, and nothing on standard error.
        parser.build(debug=False, write_tables=False, errorlog=packages["ply.yacc"].NullLogger())
        return packages["pyRDDLGym.core.compiler.model"].RDDLLiftedModel(parser.parse(text))
    except Exception as error:
        raise DomainError(
            f"RDDL files {str(domain)!r} and {str(instance)!r} cannot be read: {_line(error)}"
        ) from error


def _check_kind(model: Any, name: str) -> None:
    """Refuse what is no discrete MDP."""
    if model.observ_fluents:
        raise DomainError(
            f"RDDL problem {name} is a POMDP (it observes {next(iter(model.observ_fluents))!r}); "
            "polinfer plans in MDPs, whose state is seen"
        )
    for kind, ranges in (("state", model.state_ranges), ("action", model.action_ranges)):
        for fluent, what in ranges.items():
            if what == "real":
                raise DomainError(
                    f"RDDL problem {name} has the continuous {kind} fluent {fluent!r}; "
                    "polinfer plans with Boolean, enumerated and integer fluents"
                )
    if not model.action_ranges:
        raise DomainError(f"RDDL problem {name} has no action fluents")


def _line(error: BaseException) -> str:
    """Return the first line of an error, without the control characters that some packages underline with."""
    text = str(error).strip().split("\n")[0]
    return "".join(c for c in text if c.isprintable())[:200] or type(error).__name__
