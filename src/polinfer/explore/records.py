"""What the page and the server say to each other, typed; anything else is refused."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

from polinfer.core.errors import PolinferError, shorten

MAX_SIDE = 30
"""Cells a side of a map."""
MAX_STATES = 4096
MAX_HORIZON = 1000
MAX_BODY = 64 * 1024
"""Bytes of a request."""
MAX_UPLOAD = 2 * 1024 * 1024
"""Bytes of a file that is opened in the page."""
MAX_SECONDS = 300.0
"""Of one computation."""

Kind = Literal[
    "problem", "draft", "answer", "path", "explain", "certificate", "neighbours", "soft", "vsmc", "given"
]


class GridProblem(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag="grid", tag_field="type"):
    """A map that was drawn in the page."""

    map: str
    success_prob: float = 0.8
    horizon: int = 20
    reward_scale: float = 1.0
    gravel_reward: float = -1.0
    goal_reward: float = 5.0
    swamp_reward: float = -5.0
    step_reward: float = -0.1


class NamedProblem(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag="named", tag_field="type"):
    """A built-in problem, or one of the presets."""

    name: str
    horizon: int | None = None
    reward_scale: float = 1.0


class OpenedProblem(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag="opened", tag_field="type"):
    """The problem that the server was started on, or a table that was opened in the page."""

    digest: str
    horizon: int | None = None
    reward_scale: float = 1.0


ProblemRequest = GridProblem | NamedProblem | OpenedProblem


class JobRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One thing to compute."""

    kind: Kind
    problem: ProblemRequest
    scale: float = 1.0  # a further factor on every reward: where the slider stands
    given: tuple[tuple[int, int], ...] = ()  # states and the actions that are taken there
    draft: bool = False  # of given and explain: about the first answer, where there is no other yet
    sweeps: int = 2000  # of vsmc
    seed: int = 0

    @property
    def key(self) -> str:
        """Equal requests have equal keys."""
        return _digest(msgspec.json.encode(self, order="deterministic"))

    @property
    def problem_key(self) -> str:
        """The fingerprint of the problem alone, whatever is asked about it."""
        return _digest(msgspec.json.encode(self.problem, order="deterministic"))


class SaveRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Save the posterior as a run folder, beside what the server was started on."""

    problem: ProblemRequest
    name: str
    scale: float = 1.0
    given: tuple[tuple[int, int], ...] = ()
    seed: int = 0


class JobState(msgspec.Struct, frozen=True):
    """Where a computation stands; also what an event says."""

    key: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    kind: str = ""
    done: float = 0.0  # share
    note: str = ""  # for people
    row: tuple[float, float] | None = None  # a point of a learning curve


class Refusal(msgspec.Struct, frozen=True):
    """Why a request was refused, in one sentence."""

    error: str


def decode(body: bytes, kind: Any) -> Any:
    """Return a request as its record, or say what is wrong with it."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PolinferError(f"the request cannot be read: {shorten(str(error), 300)}") from None


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()
