"""One SMC pass over policies (Algorithm 1): two engines, one record."""

from polinfer.core.simulator import Simulator, as_simulator
from polinfer.smc.compiled import run_sweep
from polinfer.smc.config import SweepConfig
from polinfer.smc.record import Sweep
from polinfer.smc.reference import SweepRandomness, run_reference_sweep

__all__ = [
    "Simulator",
    "Sweep",
    "SweepConfig",
    "SweepRandomness",
    "as_simulator",
    "run_reference_sweep",
    "run_sweep",
]
