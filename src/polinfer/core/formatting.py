"""Numbers formatted for tables."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a table; a dash where there is none, and by its size where it is very large.

    Examples
    --------
    >>> number(1.5), number(-2.4e99), number(None)
    ('1.500', '-2.4000e+99', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}f}" if abs(value) < 1e12 else f"{value:.4e}"


def with_error(value: float | None, stderr: float | None, digits: int = 3) -> str:
    """Format a number with its standard error, where it has one."""
    return number(value, digits) + (f" ± {stderr:.3f}" if stderr else "")


def amount(value: float | None, digits: int = 0) -> str:
    """Format a count; a very large one by its size, also one that no float holds (JSON has null for it).

    Examples
    --------
    >>> amount(1234567), amount(1e30), amount(None)
    ('1,234,567', '1.0e+30', 'over 1e308')
    """
    if value is None or math.isinf(value):
        return "over 1e308"
    return f"{value:,.{digits}f}" if value < 1e12 else f"{value:.1e}"


def effectively(count: float | None) -> str:
    """Format an effective number of policies: with a decimal only where it is small.

    Examples
    --------
    >>> effectively(23.31), effectively(12345.6)
    ('23.3', '12,346')
    """
    return amount(count, 1 if count is not None and count < 100 else 0)
