"""Adapters: Gymnasium environments and RDDL problems as MDPs, and MDPs as Gymnasium environments."""

from polinfer.problems import domains as _domains  # noqa: F401 - registers the problems that get ids below
from polinfer.problems.adapters.gym import from_gymnasium, make_gymnasium
from polinfer.problems.adapters.gymnax import make_gymnax
from polinfer.problems.adapters.own_class import make_own
from polinfer.problems.adapters.rddl import from_rddl, make_rddl
from polinfer.problems.adapters.registration import register_environments, to_gymnasium
from polinfer.problems.registry import register_scheme

__all__ = [
    "from_gymnasium",
    "from_rddl",
    "make_gymnasium",
    "make_gymnax",
    "make_rddl",
    "register_environments",
    "to_gymnasium",
]

register_scheme(
    "gym",
    make_gymnasium,
    "A Gymnasium environment with discrete actions; further options are the environment's own.",
    "gym:FrozenLake-v1",
)
register_scheme(
    "gymnax",
    make_gymnax,
    "An environment of gymnax with whole numbers for a state; options are its parameters.",
    "gymnax:FourRooms-misc",
)
register_scheme(
    "rddl",
    make_rddl,
    "A problem of rddlrepository, or a pair of RDDL files: domain,instance.",
    "rddl:TriangleTireworld_MDP_ippc2014/1",
)
register_scheme(
    "file",
    make_own,
    "A class of your own: a Gymnasium environment, a JAX problem or a simulator, by its file.",
    "path/to/file.py:Class",
)
register_environments()
