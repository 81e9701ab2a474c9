"""Short texts of letters that break things.

Drawing from all letters, as Hypothesis does by default, makes a table of them first: seconds in each worker.
"""

from hypothesis import strategies as st

LETTERS = "aZ09 .,_-/\\[]{}%$'\"\n\r\t\x1b\x7f\x9b\u00e9\u0301\u202e\u2028\u5bb6\ufeff\U0001f9ed"
"""Among them what ends lines, colours, combines, turns round, or is longer in some encoding; no zero."""


def odd_text(max_size: int | None = None) -> st.SearchStrategy[str]:
    """Draw texts of such letters, zero included."""
    return st.text(alphabet="\0" + LETTERS, max_size=max_size)
