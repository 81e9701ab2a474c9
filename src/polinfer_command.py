"""The command ``polinfer``: Ctrl-C while packages are being loaded ends it with a word, not a traceback.

Nor do workers load the package before they watch whether the process that they work for is there.  This
module is no part of the package, since that is what takes long to load.
"""

import contextlib
import os
import signal
import threading
import time
import warnings
from functools import cache
from types import FrameType

_LOOK = 0.5  # seconds between looks at whether the owner is there


def main() -> int:
    """Load the command line and run it; return its exit code."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where a shell ignores it
    if ours:
        signal.signal(signal.SIGINT, _stop)
    # Where it matters, `polinfer.core.workers` says it in a sentence.
    warnings.filterwarnings("ignore", ".*joblib will operate in serial mode", UserWarning)
    from polinfer.cli import main as run  # noqa: PLC0415 - what takes long

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


def _stop(number: int, frame: FrameType | None) -> None:
    """End at once: an exception could be caught, or made another one, by what is being loaded."""
    del number, frame
    with contextlib.suppress(OSError):
        os.write(2, b"polinfer: stopped\n")
    os._exit(130)


@cache
def end_with(owner: int) -> None:
    """End this process soon after the one that it works for is gone, even in the middle of a computation."""

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(_LOOK)
        os._exit(1)

    if owner != os.getpid():
        threading.Thread(target=watch, daemon=True).start()
