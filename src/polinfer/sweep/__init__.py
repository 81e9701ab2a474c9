"""One SMC pass over policies (Algorithm 1): two engines, one record."""

from polinfer.sweep.compiled import run_sweep
from polinfer.sweep.config import SweepConfig
from polinfer.sweep.record import Sweep

__all__ = ["Sweep", "SweepConfig", "run_sweep"]
