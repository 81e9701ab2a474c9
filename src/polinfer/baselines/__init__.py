"""Learners that polinfer is compared with: discrete soft actor-critic."""

from polinfer.baselines.sac_config import SacConfig, sac_config

__all__ = ["SacConfig", "sac_config"]
