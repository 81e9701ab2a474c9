"""A unit of work: one method on one problem for one batch of seeds, known by the hash of all that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from polinfer.core.files import plain
from polinfer.methods import METHODS
from polinfer.methods.registry import make_config


@dataclass(frozen=True)
class Unit:
    """What to run, completely: equal units have equal results."""

    domain: str
    method: str  # of `polinfer.METHODS`, or a solver of `polinfer.reproduce.answers`
    options: Mapping[str, Any] = field(default_factory=dict)  # of the domain
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method
    first_seed: int = 0
    seeds: int = 1
    episodes: int = 0  # per seed, where the method is trained
    optimised: bool = True  # compiled for speed; without, for a short time to compile
    certified: bool = False  # bound log Z for the first seed, too

    @property
    def is_inferred(self) -> bool:
        """Whether a method of inference is run, or an exact answer computed."""
        return self.method in METHODS

    @property
    def is_trained(self) -> bool:
        """Whether the method runs all seeds at once, and is evaluated by episodes as the paper does."""
        return self.is_inferred and METHODS[self.method].many_seeds

    def describe(self) -> dict[str, Any]:
        """Return the full configuration, every default written out but those of `later_fields`."""
        settings: dict[str, Any] = dict(self.settings)
        if self.is_inferred:
            settings = make_config(METHODS[self.method], self.settings).to_key()
        described: dict[str, Any] = plain(
            {
                "domain": self.domain,
                "options": dict(self.options),
                "method": self.method,
                "settings": settings,
                "first_seed": self.first_seed,
                "seeds": self.seeds,
                "episodes": self.episodes,
                "optimised": self.optimised,
                "version": version("polinfer"),
            }
        )
        return {**described, "certified": True} if self.certified else described

    @property
    def key(self) -> str:
        """The name of the unit's files."""
        text = json.dumps(self.describe(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{self.domain.replace('/', '-')}-{self.method}-{digest}"
