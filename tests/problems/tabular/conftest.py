"""Settings for the tests in this folder."""

import pytest


@pytest.fixture(autouse=True)
def _quick(compile_quickly: None) -> None:
    """Compile everything in this folder quickly."""
