"""The problems that come with the library, one family a module."""

from polinfer.domains import gridworld as _grid
from polinfer.domains import probes as _probes
from polinfer.domains import worked as _worked
from polinfer.domains.gridworld import GridWorld
from polinfer.registry import register

__all__ = ["GridWorld"]

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
register("bandit", _worked.bandit)
register("continuation", _worked.continuation)
register("probe/three-targets", _probes.three_targets)
register("probe/fork", _probes.fork)
register("probe/slippery-loop", _probes.slippery_loop)
