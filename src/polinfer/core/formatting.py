"""Numbers formatted for tables."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a table; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def with_error(value: float | None, stderr: float | None, digits: int = 3) -> str:
    """Format a number with its standard error, where it has one."""
    return number(value, digits) + (f" ± {stderr:.3f}" if stderr else "")


def amount(value: float, digits: int = 0) -> str:
    """Format a count; a very large one by its size."""
    return f"{value:,.{digits}f}" if value < 1e12 else f"{value:.1e}"
