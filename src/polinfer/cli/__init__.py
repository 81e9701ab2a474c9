"""The command line."""

from polinfer.cli.main import main

__all__ = ["main"]
