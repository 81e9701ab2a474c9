"""Methods of inference: a file each, and one line below."""

from polinfer.actor_critic.config import SacConfig
from polinfer.annealing.config import TemperedConfig
from polinfer.annealing.pseudo_marginal import RolloutsConfig
from polinfer.methods.auto import Auto, AutoConfig
from polinfer.methods.base import Delegation, Method, Needs
from polinfer.methods.exact import Exact, ExactConfig
from polinfer.methods.inference import DEFAULT_METHOD, Request, infer, resolve
from polinfer.methods.iwae import Iwae, IwaeConfig
from polinfer.methods.particles import Particles, ParticlesConfig
from polinfer.methods.registry import METHODS, list_methods, method_named, read_config, register_method
from polinfer.methods.rollouts import Rollouts
from polinfer.methods.sac import Sac
from polinfer.methods.svi import Svi, SviConfig
from polinfer.methods.tempered import Tempered
from polinfer.methods.vsmc import Vsmc, VsmcConfig
from polinfer.methods.wake import Wake, WakeConfig
from polinfer.posterior.config import MethodConfig

for _method in (Auto, Vsmc, Svi, Iwae, Wake, Tempered, Rollouts, Particles, Exact, Sac):
    register_method(_method)

__all__ = [
    "DEFAULT_METHOD",
    "METHODS",
    "AutoConfig",
    "Delegation",
    "ExactConfig",
    "IwaeConfig",
    "Method",
    "MethodConfig",
    "Needs",
    "ParticlesConfig",
    "Request",
    "RolloutsConfig",
    "SacConfig",
    "SviConfig",
    "TemperedConfig",
    "VsmcConfig",
    "WakeConfig",
    "infer",
    "list_methods",
    "method_named",
    "read_config",
    "register_method",
    "resolve",
]
