"""The command line: ``polinfer list | plan | compare``."""

from polinfer.cli.main import main

__all__ = ["main"]
