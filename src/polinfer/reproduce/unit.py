"""A unit of work: one method on one problem for one batch of seeds, known by the hash of all that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from polinfer.core.files import plain
from polinfer.methods.inference import config_for, sampling_config

TRAINED = ("vsmc", "svi", "wake", "sac")
"""The methods that learn."""
SAMPLED = ("tempered", "particles")
"""The methods that sample; every other unit is an exact answer, see `polinfer.reproduce.answers`."""

_CHOSEN_LATER = {"weights": "worlds", "surrogate_share": 0.0}


@dataclass(frozen=True)
class Unit:
    """What to run, completely: equal units have equal results."""

    domain: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of the domain
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method
    first_seed: int = 0
    seeds: int = 1
    episodes: int = 0  # per seed, where the method is trained
    optimised: bool = True  # compiled for speed; without, for a short time to compile
    certified: bool = False  # bound log Z for the first seed, too

    @property
    def is_trained(self) -> bool:
        """Whether it takes training, or is computed."""
        return self.method in TRAINED

    def describe(self) -> dict[str, Any]:
        """Return the full configuration, every default written out."""
        settings: dict[str, Any] = dict(self.settings)
        if self.is_trained:
            settings = asdict(config_for(self.method, **self.settings))
            # Units that were run before there was a choice keep their keys.
            settings = {k: v for k, v in settings.items() if k not in _CHOSEN_LATER or v != _CHOSEN_LATER[k]}
        elif self.method in SAMPLED:
            settings = asdict(sampling_config(self.method, **self.settings))
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
