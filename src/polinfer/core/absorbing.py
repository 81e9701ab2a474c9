"""What an absorbing state is to an agent that is paid for entropy: the end, or a place to go on in.

Expected return cannot tell the two readings apart, since an absorbing state earns nothing.  Entropy can: an
episode that goes on until the horizon keeps paying for it, about ``alpha log|A|`` a step.
"""

from __future__ import annotations

from typing import Literal, get_args

from polinfer.core.errors import PolinferError, shorten

Absorbing = Literal["end", "continue"]
"""``"end"``: the episode is over.  ``"continue"``: it goes on there, without reward, until the horizon."""


def check_absorbing(value: str) -> bool:
    """Return whether episodes end in absorbing states; refuse a word that is neither reading.

    Examples
    --------
    >>> check_absorbing("end"), check_absorbing("continue")
    (True, False)
    """
    if value not in get_args(Absorbing):
        known = " or ".join(map(repr, get_args(Absorbing)))
        raise PolinferError(f"absorbing must be {known}, got {shorten(repr(value))}")
    return value == "end"
