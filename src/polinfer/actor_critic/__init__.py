"""Discrete soft actor-critic, the learner that polinfer is compared with."""
