"""Ctrl-C and time limits: the first press ends the step and keeps the answer, the second stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from polinfer.cli.output import remarks
from polinfer.core.stopping import Stopper, stopping


@contextmanager
def interruptible(time_limit: float | None = None, told: float | None = None) -> Iterator[Stopper]:
    """Let a computation end early with the best answer so far, after `time_limit` seconds or by Ctrl-C.

    `told` is the whole limit that the user gave, where this is a part of it.
    """
    with stopping(time_limit, told) as stopper:
        if threading.current_thread() is not threading.main_thread():
            yield stopper
            return

        def pressed(number: int, frame: FrameType | None) -> None:
            del number, frame
            if stopper.requested:
                raise KeyboardInterrupt
            stopper.request("Ctrl-C")
            remarks().print("finishing this step; what was found is kept. Ctrl-C again stops at once.")

        before = signal.signal(signal.SIGINT, pressed)
        try:
            yield stopper
        finally:
            signal.signal(signal.SIGINT, before)
