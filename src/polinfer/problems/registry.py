"""Names for problems: ``make("gridworld/multimodal", reward_scale=0.2)``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from polinfer.core.errors import DomainError, shorten, suggest
from polinfer.core.protocol import MDP, EnumerableMDP
from polinfer.core.simulator import Simulator
from polinfer.problems.spec import Spec, attach_spec, spec_of
from polinfer.problems.tabular.exploration import OPTIONS, with_exploration
from polinfer.problems.tabular.files import SUFFIXES, load_table
from polinfer.problems.terms import TERMS, with_terms

__all__ = ["Domain", "Problem", "Scheme", "Spec", "list_domains", "list_schemes", "make", "spec_of"]

Problem = MDP | Simulator
"""What `make` makes: a JAX problem, or a simulator in plain Python."""
Factory = Callable[..., Problem]


class Domain(NamedTuple):
    """A registered problem."""

    name: str
    factory: Factory
    summary: str
    defaults: dict[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """The options of the domain with their defaults."""
        found = {
            name: parameter.default
            for name, parameter in inspect.signature(self.factory).parameters.items()
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        }
        return {**found, **self.defaults}


class Scheme(NamedTuple):
    """A way to make problems of other packages: ``scheme:address``."""

    name: str
    factory: Callable[..., Problem]  # from an address and options
    summary: str
    example: str


_DOMAINS: dict[str, Domain] = {}
_SCHEMES: dict[str, Scheme] = {}


def register(name: str, factory: Factory, summary: str = "", **defaults: Any) -> None:
    """Give `factory` a name, with options that differ from its own defaults.

    Parameters
    ----------
    name
        The name for `make` and the command line; by custom ``family/instance``.
    factory
        A callable that returns an MDP; its keyword arguments are the domain's options.
    summary
        One line for ``polinfer list``; the factory's first docstring line by default.

    Examples
    --------
    >>> import polinfer
    >>> from polinfer.problems.domains.worked import continuation
    >>> polinfer.register("long-shot", continuation, "Rarely ends by itself.", rho=0.99)
    >>> polinfer.make("long-shot").horizon
    20
    """
    if name in _DOMAINS:
        raise DomainError(f"the name {name!r} is taken; register under another")
    text = summary or (inspect.getdoc(factory) or "").split("\n")[0]
    _DOMAINS[name] = Domain(name, factory, text, defaults)


def register_scheme(name: str, factory: Callable[..., Problem], summary: str, example: str) -> None:
    """Let ``make("name:address", **options)`` call ``factory(address, **options)``."""
    if name in _SCHEMES:
        raise DomainError(f"the scheme {name!r} is taken; register under another")
    _SCHEMES[name] = Scheme(name, factory, summary, example)


def list_schemes() -> dict[str, Scheme]:
    """Return all registered schemes by name."""
    return dict(_SCHEMES)


def list_domains() -> dict[str, Domain]:
    """Return all registered domains by name."""
    return dict(_DOMAINS)


def make(name: str, **options: Any) -> Any:
    """Make the problem that `name` stands for.

    That is a registered domain, a ``.npz`` or ``.json`` table file, or the address of a problem of another
    package, such as ``gym:FrozenLake-v1``.  The result is a `polinfer.MDP`, or a `polinfer.Simulator` in
    plain Python.  Every domain takes ``reward_scale`` (a factor on every reward) and ``horizon``, and the
    terms of `polinfer.with_terms`: ``prior``, ``prior_strength``, ``discount`` and ``policies``.

    Examples
    --------
    >>> import polinfer
    >>> polinfer.make("gridworld/multimodal", reward_scale=0.2, horizon=30).horizon
    30
    >>> polinfer.make("gridworld/multmodal")
    Traceback (most recent call last):
        ...
    polinfer.core.errors.DomainError: unknown domain 'gridworld/multmodal' (did you mean ...
    """
    if not isinstance(name, str | Path):
        raise DomainError(f"a domain is named by text, got {name!r}")
    terms = {option: options.pop(option) for option in TERMS if option in options}
    made = _make(str(name), options)
    return with_terms(made, **terms) if terms else made


def _make(name: str, options: dict[str, Any]) -> Any:
    explore = {option: options[option] for option in OPTIONS if option in options}
    if explore and not (name in _DOMAINS and set(explore) & set(_DOMAINS[name].options)):
        rest = {option: value for option, value in options.items() if option not in explore}
        return attach_spec(_explored(_make(name, rest), explore), Spec(name, dict(options)))
    scheme, colon, address = name.partition(":")
    if colon and scheme in _SCHEMES:
        return attach_spec(_SCHEMES[scheme].factory(address, **options), Spec(name, dict(options)))
    if name not in _DOMAINS and re.search(r"\.py:\w+$", name):
        return attach_spec(_SCHEMES["file"].factory(name, **options), Spec(name, dict(options)))
    if name not in _DOMAINS and Path(name).suffix in SUFFIXES:
        return _make_from_file(name, options)
    if name not in _DOMAINS:
        raise DomainError(
            f"unknown domain {shorten(repr(name))}{suggest(name, _DOMAINS)}; 'polinfer list' shows all, "
            "a table file ends in .npz or .json, and a class of your own is path/to/file.py:Class"
        )
    domain = _DOMAINS[name]
    known = domain.options
    for option in options:
        if option not in known:
            raise DomainError(
                f"{name} has no option {option!r}{suggest(option, known)}; it has {', '.join(known)}"
            )
    missing = [k for k, v in {**known, **options}.items() if v is inspect.Parameter.empty]
    if missing:
        raise DomainError(f"{name} needs the option {missing[0]!r}")
    return attach_spec(domain.factory(**{**domain.defaults, **options}), Spec(name, dict(options)))


def _explored(problem: Problem, options: dict[str, Any]) -> Problem:
    """Attach how to explore to a problem that needs to be."""
    told = [name for name in ("draws", "markov") if name in options]
    if told and isinstance(problem, EnumerableMDP):
        raise DomainError(f"the problem lists its outcomes, so its table is exact; leave out {told[0]}")
    if isinstance(problem, EnumerableMDP):
        return problem
    explored: Problem = with_exploration(problem, **options)
    return explored


def _make_from_file(path: str, options: dict[str, Any]) -> MDP:
    known: tuple[str, ...] = ("horizon", "reward_scale")
    for option in options:
        if option not in known:
            raise DomainError(
                f"a table file has no option {option!r}{suggest(option, known)}; it has {', '.join(known)}"
            )
    return load_table(path).with_problem(**options)
