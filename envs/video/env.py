"""Video-v1: which part of a long video to look at, over a few turns, before an answer."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

COLOURS = ("red", "green", "blue", "white")
SLOT, SHOWN, FIRST = 8, 8, 16  # frames per slot, frames per look, frames of the first look
LONGEST = 6  # of a scene: one of its frames is always in the first look


@struct.dataclass
class VideoState(EnvState):
    """Of scene k, whose colour is k: start i32[S], its first frame; place i32[S], the frame with
    its digit i32[S]. asked: i32[], the scene of the question. look: i32[], last look, -1 for the
    first one. answer: i32[], -1 for none."""

    start: jax.Array
    place: jax.Array
    digit: jax.Array
    asked: jax.Array
    look: jax.Array
    answer: jax.Array


@dataclasses.dataclass(frozen=True)
class Video(Environment):
    """A video of `frames` frames with `scenes` scenes of 6, each of a colour; which digit is in the
    scene of one colour?

    The first look shows 16 frames, evenly spread; every scene is in it, no digit is. Another shows
    8 frames, evenly spread, of 8, 16 or 32 consecutive ones.

    Observation: float32 one-hots: colours in the first look [16, S], colours and digits in the last
    one [8, S + digits] (0 before there is one), and the colour asked for [S]. Actions: looks, then
    digits; always legal. Reward: for the right digit 1 - 0.1 per turn before it. Ends with any
    answer, or with the last of `turns`, which is a rule and not a time limit. Task: slots of 8
    frames for the scenes, places in them, digits, question.

    Expert: looks at the 8 frames of the scene asked for, then answers; optimal.

    Source: Video-MTR (2025), https://arxiv.org/abs/2508.20478; code Xyuan13/Video-MTR (read): looks
    of 8 frames, at most three turns, the price of turns. Videos and questions are ours.
    """

    frames: int = 64
    scenes: int = 3
    digits: int = 4
    turns: int = 4

    wordings: ClassVar[str] = "envs.video.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if self.frames not in (32, 64):
            raise ValueError(
                f"frames {self.frames}: expected 32 or 64; in a longer video the first look misses "
                "scenes"
            )
        if not 1 <= self.scenes <= len(COLOURS) or not 2 <= self.digits <= 10 or self.turns < 1:
            raise ValueError(
                f"scenes {self.scenes}, digits {self.digits}, turns {self.turns}: expected 1 to "
                f"{len(COLOURS)}, 2 to 10, and at least 1"
            )

    @property
    def looks(self) -> np.ndarray:
        """First frames and lengths of the looks, i32[looks, 2]."""
        return np.array(
            [(at, n) for n in (8, 16, 32) for at in range(0, self.frames - n + 1, SLOT)], np.int32
        )

    @property
    def shown(self) -> np.ndarray:
        """Frames that each look shows, i32[looks, 8]."""
        first, length = self.looks[:, :1], self.looks[:, 1:]
        return first + np.arange(SHOWN, dtype=np.int32) * length // SHOWN

    @property
    def first_shown(self) -> np.ndarray:
        """Frames that the first look shows, i32[16]."""
        return np.arange(FIRST, dtype=np.int32) * self.frames // FIRST

    @property
    def default_params(self) -> EnvParams:
        return EnvParams(max_steps_in_episode=self.turns)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`look FIRST to LAST`, then `answer DIGIT`."""
        looks = (f"look {at} to {at + n - 1}" for at, n in self.looks)
        return (*looks, *(f"answer {d}" for d in range(self.digits)))

    def initial(self, key: jax.Array, params: EnvParams) -> VideoState:
        slot_key, start_key, place_key, digit_key, asked_key = jax.random.split(key, 5)
        count, every = (self.scenes,), self.frames // FIRST
        slot = jax.random.choice(slot_key, self.frames // SLOT, count, replace=False)
        start = slot * SLOT + jax.random.randint(start_key, count, 0, SLOT - LONGEST + 1)
        # A frame of the scene that is not in the first look.
        inside = start[:, None] + np.arange(LONGEST)
        hidden = jnp.where(inside % every == 0, -jnp.inf, 0.0)
        place = start + jax.random.categorical(place_key, hidden)
        none = jnp.full((), -1, jnp.int32)
        return VideoState(
            time=jnp.zeros((), jnp.int32),
            start=start.astype(jnp.int32),
            place=place.astype(jnp.int32),
            digit=jax.random.randint(digit_key, count, 0, self.digits),
            asked=jax.random.randint(asked_key, (), 0, self.scenes),
            look=none,
            answer=none,
        )

    def transition(
        self, key: jax.Array, state: VideoState, action: jax.Array, params: EnvParams
    ) -> tuple[VideoState, jax.Array]:
        looks = action < len(self.looks)
        answer = jnp.where(looks, -1, action - len(self.looks))
        right = answer == state.digit[state.asked]
        following = state.replace(look=jnp.where(looks, action, state.look), answer=answer)
        return following, jnp.where(right, 1.0 - 0.1 * state.time, 0.0)

    def contents(self, state: VideoState, frames: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Scene and digit of frames [K], each one-hot: bool[K, scenes] and bool[K, digits]."""
        offset = frames[:, None] - state.start
        coloured = (offset >= 0) & (offset < LONGEST)
        here = frames[:, None] == state.place
        digits = state.digit[:, None] == np.arange(self.digits)
        return coloured, jnp.any(here[..., None] & digits, axis=1)

    def last_look(self, state: VideoState) -> jax.Array:
        """The frames of the last look, i32[8]; those of a look without contents before it."""
        frames = jnp.asarray(self.shown)[jnp.maximum(state.look, 0)]
        return jnp.where(state.look >= 0, frames, -self.frames)

    def observe(self, state: VideoState, params: EnvParams) -> jax.Array:
        first, _ = self.contents(state, jnp.asarray(self.first_shown))
        last = jnp.concatenate(self.contents(state, self.last_look(state)), axis=1)
        asked = np.arange(self.scenes) == state.asked
        seen = jnp.concatenate([first.reshape(-1), last.reshape(-1), asked])
        return seen.astype(jnp.float32)

    def is_terminated(self, state: VideoState, params: EnvParams) -> jax.Array:
        return (state.answer >= 0) | (state.time >= self.turns)

    def is_success(self, state: VideoState, params: EnvParams) -> jax.Array:
        return state.answer == state.digit[state.asked]

    def expert(self, state: VideoState, params: EnvParams) -> jax.Array:
        place = state.place[state.asked]
        found = jnp.any(self.last_look(state) == place)
        answer = len(self.looks) + state.digit[state.asked]
        # The looks at 8 frames come first, in order.
        return jnp.where(found, answer, place // SLOT).astype(jnp.int32)

    # What `agentrl.methods.looking` compares.

    def frames_shown(self, action: jax.Array) -> jax.Array:
        """Frames that an action shows, bool[..., frames]; none if it is an answer; -1: the first
        look."""
        table = np.zeros((len(self.looks) + self.digits + 1, self.frames), bool)
        np.put_along_axis(table[: len(self.looks)], self.shown, True, axis=1)
        table[-1, self.first_shown] = True
        return jnp.asarray(table)[action]

    def relevant_frames(self, state: VideoState, params: EnvParams) -> jax.Array:
        """The frames of the scene that is asked for, bool[frames]."""
        offset = np.arange(self.frames) - state.start[state.asked]
        return (offset >= 0) & (offset < LONGEST)

    def render(self, state: VideoState, params: EnvParams) -> str:
        """The video, a letter or a digit per frame; below it the last look and the question."""
        frames = jnp.arange(self.frames)
        scene, digit = map(np.asarray, self.contents(state, frames))
        letters = [
            str(d.argmax()) if d.any() else (COLOURS[c.argmax()][0] if c.any() else ".")
            for c, d in zip(scene, digit, strict=True)
        ]
        seen = self.first_shown if int(state.look) < 0 else self.shown[int(state.look)]
        marks = "".join("^" if f in seen else " " for f in range(self.frames)).rstrip()
        return f"{''.join(letters)}\n{marks}\nwhich digit is {COLOURS[int(state.asked)]}?"
