"""Screens-v1: find a screen of an application by its icons (GUI Exploration Lab)."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.screens import rules

SPLITS = ("seen", "unseen", "icons", "graphs")


@struct.dataclass
class ScreensState(EnvState):
    """The graph and the agent's screen. Screens are numbered by their place in the tree.

    labels u8[S]: label of each screen. icons u8[S]: icon that leads to each. screen, goal
    u8[]. distance u8[]: length of the shortest path from the start.
    """

    labels: jax.Array
    icons: jax.Array
    screen: jax.Array
    goal: jax.Array
    distance: jax.Array


@struct.dataclass
class ScreensParams(EnvParams):
    """The limit is steps_per_move * k + spare_steps for a task of k moves.

    noise: probability that a click lands on a random element of the screen.
    """

    illegal_reward: float = -1.0
    noise: float = 0.0
    steps_per_move: int = 2
    spare_steps: int = 4


@dataclasses.dataclass(frozen=True)
class Screens(Environment):
    """A tree of S screens; a screen of level d has `branching[d]` children, one icon each.

    Observation: float32, indicators of the screen's label [S], of the goal's [S], of the icons on
    the screen [icons], of back and home [2]. The target of an icon is not shown: it has to be
    learnt from earlier episodes or found by trying. Actions: click one of the `icons` icons by
    name, then back (to the parent) and home (to the root, on screens two levels below it); elements
    that are not on the screen are illegal. Reward: -0.1 per click, 10 for the one that reaches the
    goal, -1 if illegal. Ends at the goal; limit 2 k + 4 steps for a shortest path of k moves.

    Task: a pair of screens. split "seen": three quarters of all pairs, in one graph determined by
    `seed`; "unseen": the other quarter; "icons": any pair, the icons drawn anew for every task;
    "graphs": any pair, icons and labels drawn anew. aliased: the same icon may lead to different
    targets on different screens (then `icons` may be as few as the widest branching).

    Anchors with of="state" include the graph, the screen and the goal.

    Expert: a shortest path, up to the lowest common ancestor (home if that is shorter), then down.
    In a new graph it knows more than the agent.
    Source: GE-Lab's generator (read in a fork: tree, icons, back, home, rewards); there pages are
    images and clicks have coordinates, here icons are named. The splits follow its paper's stages,
    the limit and the noise are ours.
    """

    branching: tuple[int, ...] = (3, 2, 2)
    icons: int = 24
    aliased: bool = False
    seed: int = 0
    split: str = "seen"

    wordings: ClassVar[str] = "envs.screens.words"

    def __post_init__(self):
        if not self.branching or min(self.branching) < 1 or self.screens > 64:
            raise ValueError(
                f"branching {self.branching}: expected the number of children per level, each "
                f"at least 1, with at most 64 screens (this one has {self.screens})"
            )
        least = max(self.branching) if self.aliased else self.screens - 1
        if not least <= self.icons <= len(rules.ICONS):
            raise ValueError(
                f"icons {self.icons}: expected {least} to {len(rules.ICONS)} for branching "
                f"{self.branching} {'with' if self.aliased else 'without'} aliased icons"
            )
        if self.split not in SPLITS:
            raise ValueError(f"split {self.split!r}: expected one of {', '.join(SPLITS)}")

    @property
    def screens(self) -> int:
        """Number of screens S, from the first one to the leaves of the tree."""
        return rules.size(self.branching)

    @property
    def tree(self) -> rules.Tree:
        """Moves, distances and shortest paths between all screens, see `rules.Tree`."""
        return rules.tree(self.branching)

    @property
    def default_params(self) -> ScreensParams:
        """A limit of twice the longest way between two screens, and four steps."""
        return ScreensParams(max_steps_in_episode=2 * int(self.tree.distance.max()) + 4)

    @property
    def action_names(self) -> tuple[str, ...]:
        return (*rules.ICONS[: self.icons], "back", "home")

    def initial(self, key: jax.Array, params: ScreensParams) -> ScreensState:
        """A pair of the split, in its graph."""
        pair_key, icon_key, label_key = jax.random.split(key, 3)
        seen, unseen = rules.pairs(self.branching, self.seed)
        every = {"seen": seen, "unseen": unseen}.get(self.split, np.concatenate([seen, unseen]))
        pair = jnp.asarray(every)[jax.random.randint(pair_key, (), 0, len(every))]
        labels, icons = _graph(self)
        if self.split == "graphs":
            labels = jax.random.permutation(label_key, self.screens).astype(jnp.uint8)
        if self.split in ("graphs", "icons"):
            icons = rules.names(icon_key, self.branching, self.icons, self.aliased)
        distance = jnp.asarray(self.tree.distance)[pair[0].astype(int), pair[1].astype(int)]
        return ScreensState(
            time=jnp.zeros((), jnp.int32),
            labels=jnp.asarray(labels),
            icons=jnp.asarray(icons),
            screen=pair[0],
            goal=pair[1],
            distance=distance,
        )

    def elements(self, state: ScreensState) -> tuple[jax.Array, jax.Array]:
        """The screen's elements: target of each i8[B + 2], -1 for none, and its action u8."""
        behind = jnp.asarray(self.tree.reach)[state.screen.astype(jnp.int32)]
        leads = jnp.arange(self.screens, dtype=jnp.int8) == behind[:-2, None]
        icons = jnp.sum(jnp.where(leads, state.icons, 0), axis=1, dtype=jnp.uint8)
        fixed = np.array([self.icons, self.icons + 1], np.uint8)
        return behind, jnp.append(icons, fixed)

    def transition(
        self, key: jax.Array, state: ScreensState, action: jax.Array, params: ScreensParams
    ) -> tuple[ScreensState, jax.Array]:
        """Follows the click, or with the noise's probability another element."""
        behind, actions = self.elements(state)
        there = behind >= 0
        clicked = there & (actions == action)
        draw = jax.random.uniform(key)
        # If the draw is below the noise, the same draw, rescaled, selects the element.
        hit = jnp.floor(draw / jnp.where(params.noise > 0, params.noise, 1.0) * jnp.sum(there))
        other = there & (jnp.cumsum(there) - 1 == hit.astype(jnp.int32))
        clicked = jnp.where(draw < params.noise, other, clicked)
        screen = jnp.sum(jnp.where(clicked, behind, 0), dtype=jnp.int8).astype(jnp.uint8)
        return state.replace(screen=screen), jnp.where(screen == state.goal, 10.0, -0.1)

    def observe(self, state: ScreensState, params: ScreensParams) -> jax.Array:
        """Labels of the screen and the goal, and the elements of the screen."""
        label = np.arange(self.screens, dtype=np.uint8)
        here, there = self.labels(state)
        seen = [label == here, label == there, self.legal(state, params)]
        return jnp.concatenate(seen).astype(jnp.float32)

    def labels(self, state: ScreensState) -> tuple[jax.Array, jax.Array]:
        """Labels of the screen and of the goal, u8[] each."""
        screens = jnp.arange(self.screens, dtype=jnp.uint8)

        def of(screen):
            return jnp.sum(jnp.where(screens == screen, state.labels, 0), dtype=jnp.uint8)

        return of(state.screen), of(state.goal)

    def is_terminated(self, state: ScreensState, params: ScreensParams) -> jax.Array:
        return state.screen == state.goal

    def is_success(self, state: ScreensState, params: ScreensParams) -> jax.Array:
        return state.screen == state.goal

    def is_truncated(self, state: ScreensState, params: ScreensParams) -> jax.Array:
        """At the task's own limit, or at the environment's."""
        limit = params.steps_per_move * state.distance.astype(jnp.int32) + params.spare_steps
        return super().is_truncated(state, params) | (state.time >= limit)

    def legal(self, state: ScreensState, params: ScreensParams) -> jax.Array:
        behind, actions = self.elements(state)
        shown = actions[:, None] == jnp.arange(self.num_actions, dtype=jnp.uint8)
        return jnp.any(shown & (behind >= 0)[:, None], axis=0)

    def expert(self, state: ScreensState, params: ScreensParams) -> jax.Array:
        _, actions = self.elements(state)
        hop = jnp.asarray(self.tree.hop)[state.screen.astype(int), state.goal.astype(int)]
        return actions[hop.astype(int)].astype(jnp.int32)

    def render(self, state: ScreensState, params: ScreensParams) -> str:
        """The tree, one line per screen: icon and label, > marks the agent and $ the goal."""
        labels, icons = np.asarray(state.labels), np.asarray(state.icons)
        lines = []

        def draw(screen, level):
            mark = (">" if screen == state.screen else " ") + ("$" if screen == state.goal else " ")
            icon = f"{rules.ICONS[icons[screen]]} " if screen else ""
            lines.append(f"{mark} {'  ' * level}{icon}p{labels[screen]:02d}")
            for child in self.tree.reach[screen, :-2]:
                if child >= 0:
                    draw(int(child), level + 1)

        draw(0, 0)
        return "\n".join(lines)


@functools.lru_cache(maxsize=16)
def _graph(env: Screens) -> tuple[np.ndarray, np.ndarray]:
    """Labels and icons of the graph determined by the seed, drawn on the host."""
    rng = np.random.default_rng(env.seed)
    labels = rng.permutation(env.screens).astype(np.uint8)
    if not env.aliased:
        drawn = rng.permutation(env.icons)[: env.screens - 1]
        return labels, np.append(env.icons, drawn).astype(np.uint8)
    icons = np.full(env.screens, env.icons, np.uint8)
    for children in env.tree.reach[:, :-2]:
        children = children[children >= 0]
        icons[children] = rng.permutation(env.icons)[: len(children)]
    return labels, icons
