"""A polinfer MDP as a Gymnasium environment."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from polinfer.core.absorbing import Absorbing, check_absorbing
from polinfer.core.errors import PolinferError
from polinfer.core.protocol import MDP, HasEndings, HasNames, State
from polinfer.problems.adapters.rendering import picture, text_map
from polinfer.problems.domains.gridworld import GridWorld
from polinfer.problems.tabular.table import TabularMDP
from polinfer.problems.tabular.tabulate import tabulate

Observation = np.int64 | NDArray[np.float32]


class _Seen(NamedTuple):
    """What an environment returns about a state."""

    features: Any  # [F] float32
    identity: Any  # [K] int32
    legal: Any  # [A] bool
    ending: Any  # [] int32, -1 for none


class _Compiled(NamedTuple):
    init: Any
    step: Any


class MDPEnvironment(gymnasium.Env[Observation, np.int64]):
    """An MDP as a Gymnasium environment; made by `polinfer.to_gymnasium`."""

    def __init__(
        self,
        mdp: MDP,
        *,
        render_mode: str | None = None,
        observation: Literal["features", "index"] = "features",
        absorbing: Absorbing = "end",
    ) -> None:
        if observation not in ("features", "index"):
            raise PolinferError(f"observation must be 'features' or 'index', got {observation!r}")
        self._ends = check_absorbing(absorbing)
        self.grid = mdp if isinstance(mdp, GridWorld) else None
        self.mdp: MDP = tabulate(mdp) if observation == "index" else mdp
        self.metadata = {"render_modes": _render_modes(mdp), "render_fps": 4}
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            known = ", ".join(map(repr, self.metadata["render_modes"])) or "none"
            raise PolinferError(f"{type(mdp).__name__} has no render mode {render_mode!r}; it has {known}")
        self.render_mode = render_mode
        self._by_index = observation == "index"
        self._compiled = partial(_compile, self.mdp)  # a lookup: compiled functions cannot be copied
        self.action_space = spaces.Discrete(mdp.num_actions)
        self.observation_space = self._observation_space()
        # What lets Gymnasium make another; its `make` puts a registered spec in its place.
        self.spec = EnvSpec(
            f"polinfer/{type(mdp).__name__}-v0",
            entry_point=partial(MDPEnvironment, mdp),
            kwargs={"render_mode": render_mode, "observation": observation, "absorbing": absorbing},
        )
        self._state: State | None = None
        self._seen: _Seen
        self._steps, self._last = 0, ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; no options."""
        super().reset(seed=seed)
        self._state, self._seen = self._compiled().init(self._draw())
        self._steps, self._last = 0, ""
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take an action, which must be legal."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        chosen = self._check(action)
        moved, self._seen = self._compiled().step(self._draw(), self._state, np.int32(chosen))
        self._state, reward = moved.state, float(moved.reward)
        terminated = self._ends and bool(moved.terminated)
        self._steps += 1
        self._last = f", {self._action_name(chosen)}, reward {reward:g}"
        truncated = self._steps >= self.mdp.horizon and not terminated
        return self._observe(), reward, terminated, truncated, self._info()

    def render(self) -> Any:
        """Return the text or the picture of the state, None without a render mode."""
        if self._state is None and self.render_mode is not None:
            raise gymnasium.error.ResetNeeded("call reset before render")
        if self.render_mode == "ansi":
            where = f"{self._state_name()}, step {self._steps} of {self.mdp.horizon}{self._last}"
            return where if self.grid is None else f"{text_map(self.grid, self._cell())}\n{where}"
        if self.render_mode == "rgb_array" and self.grid is not None:
            return picture(self.grid, self._cell())
        return None

    def get_state(self) -> tuple[State, _Seen, int, str]:
        """Return what `set_state` takes; randomness is no part of it."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset before get_state")
        return self._state, self._seen, self._steps, self._last

    def set_state(self, state: tuple[State, _Seen, int, str]) -> None:
        """Return to where `get_state` was called."""
        self._state, self._seen, self._steps, self._last = state

    def _observation_space(self) -> spaces.Space[Any]:
        if self._by_index:
            assert isinstance(self.mdp, TabularMDP)
            return spaces.Discrete(self.mdp.num_states)
        shape = jax.eval_shape(lambda key: self.mdp.encode(self.mdp.init(key)), jax.random.key(0)).shape
        one_hot = self.grid is not None or (isinstance(self.mdp, TabularMDP) and self.mdp.features is None)
        # The widest bounds that are numbers: nothing is known, and Gymnasium warns of infinity.
        high = 1.0 if one_hot else float(np.finfo(np.float32).max)
        return spaces.Box(0.0 if one_hot else -high, high, shape, np.float32)

    def _draw(self) -> NDArray[np.uint32]:
        return self.np_random.integers(0, 1 << 32, 2, np.uint32)

    def _check(self, action: Any) -> int:
        if not self.action_space.contains(action):
            raise PolinferError(f"action {action!r} is not one of 0..{self.mdp.num_actions - 1}")
        if not np.asarray(self._seen.legal)[int(action)]:
            raise PolinferError(
                f"action {self._action_name(int(action))!r} is not legal in state {self._state_name()}; "
                "info['action_mask'] tells which are"
            )
        return int(action)

    def _observe(self) -> Observation:
        # Copies: Gymnasium wants new data from every call, and agents write into it.
        return np.int64(self._state) if self._by_index else np.array(self._seen.features)  # type: ignore[arg-type]

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "identity": np.array(self._seen.identity),
            "action_mask": np.array(self._seen.legal, np.int8),
        }
        if int(self._seen.ending) >= 0 and isinstance(self.mdp, HasEndings):
            info["ending"] = self.mdp.endings[int(self._seen.ending)].name
        return info

    def _cell(self) -> int:
        return int(np.asarray(self._seen.identity)[0])

    def _state_name(self) -> str:
        if isinstance(self.mdp, HasNames):
            return self.mdp.state_name(jax.tree.map(np.asarray, self._state))
        return str(np.asarray(self._seen.identity).tolist())

    def _action_name(self, action: int) -> str:
        return self.mdp.action_names[action] if isinstance(self.mdp, HasNames) else str(action)


def _render_modes(mdp: MDP) -> list[str]:
    if isinstance(mdp, GridWorld):
        return ["ansi", "rgb_array"]
    return ["ansi"] if isinstance(mdp, HasNames) else []


@lru_cache(maxsize=32)
def _compile(mdp: MDP) -> _Compiled:
    """Compile what an environment needs; equal problems share it."""

    def see(state: State) -> _Seen:
        ending = mdp.ending(state) if isinstance(mdp, HasEndings) else np.int32(-1)
        return _Seen(mdp.encode(state), mdp.identity(state), mdp.legal(state), ending)

    @jax.jit
    def init(words: jax.Array) -> Any:
        state = mdp.init(jax.random.wrap_key_data(words, impl="threefry2x32"))
        return state, see(state)

    @jax.jit
    def step(words: jax.Array, state: State, action: jax.Array) -> Any:
        moved = mdp.step(jax.random.wrap_key_data(words, impl="threefry2x32"), state, action)
        return moved, see(moved.state)

    return _Compiled(init, step)
