"""Checks for problems of one's own: `check_mdp` tries all promises of the protocol on an implementation."""

from polinfer.problems.conformance import check_mdp, check_shapes

__all__ = ["check_mdp", "check_shapes"]
