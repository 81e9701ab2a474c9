"""Learners that polinfer is compared with: discrete soft actor-critic."""

from polinfer.actor_critic.config import SacConfig, sac_config

__all__ = ["SacConfig", "sac_config"]
