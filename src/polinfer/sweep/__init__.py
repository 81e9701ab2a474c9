"""One SMC pass over policies (Algorithm 1): two engines, one record."""

from polinfer.sweep.compiled import run_sweep
from polinfer.sweep.config import SweepConfig
from polinfer.sweep.record import Sweep
from polinfer.sweep.reference import SweepRandomness, run_reference_sweep
from polinfer.sweep.simulator import Simulator, as_simulator

__all__ = [
    "Simulator",
    "Sweep",
    "SweepConfig",
    "SweepRandomness",
    "as_simulator",
    "run_reference_sweep",
    "run_sweep",
]
