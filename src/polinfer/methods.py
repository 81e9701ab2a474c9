"""The methods by name, with a line each."""

METHODS = {
    "vsmc": "Variational sequential Monte Carlo over policies: the paper's method.",
    "svi": "Structured variational inference: the same with one particle.",
    "iwae": "Importance weighting: the same without resampling.",
    "exact": "Enumerate every deterministic policy: the posterior, exactly, for small problems.",
}
