"""The methods by name, with a line each."""

METHODS = {
    "vsmc": "Variational sequential Monte Carlo over policies: the paper's method.",
    "svi": "Structured variational inference: the same with one particle.",
    "iwae": "Importance weighting: the same without resampling.",
    "wake": "Fit the proposal to the weighted policies of sweeps: near the posterior, the default.",
    "tempered": "Anneal a population of whole policies from the uniform measure to the posterior, on tables.",
    "particles": "The weighted policies of large sweeps, without a network, on tables.",
    "exact": "Enumerate every deterministic policy: the posterior, exactly, for small problems.",
    "sac": "Discrete soft actor-critic, the baseline: a policy that is paid for its entropy; no posterior.",
}
