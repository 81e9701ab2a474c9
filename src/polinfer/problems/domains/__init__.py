"""The built-in problems, one module per family."""

from functools import partial as _partial

from polinfer.problems.domains import gridworld as _grid
from polinfer.problems.domains import ippc2014 as _ippc
from polinfer.problems.domains import probes as _probes
from polinfer.problems.domains import worked as _worked
from polinfer.problems.domains.advising import Advising
from polinfer.problems.domains.advising import advising as _advising
from polinfer.problems.domains.blackjack import Blackjack
from polinfer.problems.domains.gridworld import GridWorld
from polinfer.problems.domains.tireworld import Tireworld
from polinfer.problems.domains.tireworld import tireworld as _tireworld
from polinfer.problems.registry import register

__all__ = ["Advising", "Blackjack", "GridWorld", "Tireworld"]

register("gridworld", _grid.gridworld, "Slippery grid world from your own text map (map=FILE).")
register("gridworld/flat", _grid.gridworld, "The paper's 4x4 grid without obstacles.", map=_grid.FLAT)
register(
    "gridworld/unimodal",
    _grid.gridworld,
    "The paper's 4x4 grid with gravel in two corners: one good way, the diagonal.",
    map=_grid.UNIMODAL,
)
register(
    "gridworld/multimodal",
    _grid.gridworld,
    "The paper's 4x4 grid with gravel in the middle: good ways along both edges.",
    map=_grid.MULTIMODAL,
)
register(
    "gridworld/ablation",
    _grid.gridworld,
    "The paper's 2x3 grid with a swamp beside the goal, for its ablations.",
    map=_grid.ABLATION,
    success_prob=0.5,
    horizon=10,
)
register("blackjack", Blackjack)
for _number in _ippc.INSTANCES:
    _map, _plan = _ippc.tire_map(_number), _ippc.curriculum(_number)
    register(
        f"tireworld/{_number}",
        _partial(_tireworld, _number),
        f"Triangle Tireworld {_number}: {len(_map.locations)} locations, {len(_map.spares)} spares, "
        f"a flat with probability {_map.flat_prob:g}.",
    )
    register(
        f"advising/{_number}",
        _partial(_advising, _number),
        f"Academic Advising {_number}: {len(_plan.courses)} courses, {len(_plan.required)} of them required, "
        f"at most {_plan.load} at a time.",
    )
register("bandit", _worked.bandit)
register("continuation", _worked.continuation)
register("probe/three-targets", _probes.three_targets)
register("probe/fork", _probes.fork)
register("probe/slippery-loop", _probes.slippery_loop)
