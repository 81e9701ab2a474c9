"""A progress bar with the time left, in terminals and notebooks, and an estimate before long computations."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from polinfer.core.progress import Progress as ReportProgress
from polinfer.core.progress import Report

_LONG = 10.0  # seconds: what takes longer is announced
_SOON = 1.0  # seconds of work after which the estimate counts


class Pace:
    """How fast reports come in, without the time before the first one, which goes into compiling."""

    def __init__(self) -> None:
        self.first: tuple[float, float] | None = None  # time and amount of the first report
        self.last: tuple[float, float] = (0.0, 0.0)
        self.total = 0.0

    def add(self, when: float, done: float, total: float) -> None:
        """Take a report into account."""
        self.first = self.first or (when, done)
        self.last, self.total = (when, done), total

    def restart(self) -> None:
        """Forget the reports so far: something else is counted from now on."""
        self.first, self.last, self.total = None, (0.0, 0.0), 0.0

    def left(self, now: float) -> float | None:
        """Return the seconds left, None where nothing is known yet.

        The time since the last report counts as time in which nothing was done.

        Examples
        --------
        >>> pace = Pace()
        >>> for second in range(5):
        ...     pace.add(100.0 + second, 10.0 + 2 * second, 30.0)
        >>> pace.left(104.0)
        6.0
        """
        if self.first is None or self.last[1] <= self.first[1] or now <= self.first[0]:
            return None
        return (now - self.first[0]) * (self.total - self.last[1]) / (self.last[1] - self.first[1])

    def speed(self) -> float | None:
        """Return the amount per second so far."""
        if self.first is None or self.last[0] <= self.first[0]:
            return None
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


def duration(seconds: float) -> str:
    """Write a duration for people.

    Examples
    --------
    >>> duration(8.4), duration(75), duration(7500)
    ('8 s', '1 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def memory_used() -> str:
    """Return the largest memory that this process has had; empty where the system does not tell."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return ""
    unit = 1 if sys.platform == "darwin" else 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f"{used / 2**30:.1f} GB" if used >= 2**30 else f"{used / 2**20:.0f} MB"


class _TimeLeft(ProgressColumn):
    def __init__(self, pace: Pace) -> None:
        super().__init__(Column(no_wrap=True))
        self.pace = pace

    def render(self, task: Task) -> Text:
        left = None if task.finished else self.pace.left(time.perf_counter())
        return Text("" if left is None else f"{duration(left)} left", style="cyan")


@contextmanager
def progress_bar(seeds: int = 1, console: Console | None = None) -> Iterator[ReportProgress]:
    """Show how far a computation is, how fast, and how long it will take; nothing if it is over at once.

    What takes more than ten seconds is announced in a line of its own, with the memory that it has taken so
    far: the first reports are the calibration.
    """
    shown, pace = console or Console(), Pace()
    bar = Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[state]}", table_column=Column(no_wrap=True)),
        _TimeLeft(pace),
        # What does not fit into a narrow terminal is left out: two lines would not be drawn over.
        TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        console=shown,
    )
    task = bar.add_task("starting", total=None, state="compiling ...", note="")
    announced, unit = False, ""

    def report(now: Report) -> None:
        nonlocal announced, unit
        when = time.perf_counter()
        if now.unit != unit:
            announced, unit = False, now.unit
            pace.restart()
        pace.add(when, now.done, now.total)
        if now.done < now.total and not bar.live.is_started:
            bar.start()
        assert pace.first is not None
        left = pace.left(when) if when - pace.first[0] >= _SOON else None
        if left is not None and not announced:
            announced = True
            if left > _LONG:
                used = memory_used()
                memory = f", memory {used} so far" if used else ""
                shown.print(f"{now.unit}: about {duration(left)} to go{memory}", markup=False)
        bar.update(
            task,
            completed=now.done,
            total=now.total,
            description=now.unit,
            state=f"{_amounts(now)}{_speed(pace, seeds)}",
            note=now.note,
        )

    try:
        yield report
    finally:
        if bar.live.is_started:
            bar.stop()


def _amounts(now: Report) -> str:
    if now.total <= 1:  # a share
        return f"{100 * now.done:.0f}%"
    return f"{_amount(now.done)} of {_amount(now.total)}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def _speed(pace: Pace, seeds: int) -> str:
    speed = pace.speed()
    # A share, such as the reward scale on its way to 1, has no speed worth showing.
    if speed is None or speed * seeds < 1 or pace.first is None or pace.last[1] - pace.first[1] < 10:
        return ""
    return f"  {speed * seeds:,.0f}/s"
