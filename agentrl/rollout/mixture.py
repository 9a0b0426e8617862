"""Several environments in one rollout: one policy's experience of each, put together."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.rollout.types import Rollout
from agentrl.streams import Rows, Streams

# Counts of a collection, which add up over environments; everything else is a mean.
_COUNTS = ("tokens", "episodes")


class SlotsOfSeveral(NamedTuple):
    """As `seating.Slots`, for the matches of several games one behind the other."""

    members: int
    slots: tuple[np.ndarray, ...]

    def of_match(self) -> np.ndarray:
        """Index of the pool member that each match is played against, i32[B]."""
        return np.concatenate(self.slots)


def several(rollouts: Mapping[str, Rollout]) -> Rollout:
    """One rollout of environments by name, collected one after the other in one program.

    Streams and rows of the first environment come first, then those of the second, and so on; they
    are padded to the longest, and `task` is the environment's index. Groups and episodes of
    different environments are different. An environment of one agent has role 0.

    Metrics: `{name}/...` of each environment; without a name of all of them, weighted by their
    episodes, turns or tokens. Demonstrations are shared out evenly. `collect` gives the members of
    a pool to all environments, which have to be games of as many seats.

    Raises:
      ValueError: the environments cannot be combined.
    """
    names, parts = tuple(rollouts), tuple(rollouts.values())
    slots, met = None, [part.slots for part in parts if part.slots is not None]
    if met:
        if len({part.agents for part in parts}) > 1:
            raise ValueError(
                "rollout opponent='pool' with games of "
                f"{', '.join(f'{part.agents} ({name})' for name, part in rollouts.items())} seats: "
                "expected as many seats in all of them"
            )
        slots = SlotsOfSeveral(met[0].members, tuple(one.of_match() for one in met))
    provides = frozenset.intersection(*(part.provides - {"role", "task"} for part in parts))

    together = _Several(names, parts)
    return Rollout(
        init=together.init,
        collect=together.collect,
        num_streams=sum(part.num_streams for part in parts),
        turns=max(part.turns for part in parts),
        units=parts[0].units,
        provides=provides | {"role", "task"},
        num_rows=sum(part.num_rows for part in parts),
        agents=max(part.agents for part in parts),
        roles=max(part.roles for part in parts),
        tasks=names,
        runner=parts[0].runner,
        slots=slots,
        needs=tuple(sorted({name for part in parts for name in part.needs})),
        properties=frozenset.intersection(*(part.properties for part in parts)),
        demonstrate=together.demonstrate,
    )


class _Several(NamedTuple):
    """Rollouts that are collected one after the other, and the names of their environments."""

    names: tuple[str, ...]
    parts: tuple[Rollout, ...]

    def init(self, key):
        keys = jax.random.split(key, len(self.parts))
        return tuple(part.init(k) for part, k in zip(self.parts, keys, strict=True))

    def collect(self, params, states, key, **given):
        keys = jax.random.split(key, len(self.parts))
        collected = [
            part.collect(params, state, k, **given)
            for part, state, k in zip(self.parts, states, keys, strict=True)
        ]
        states, streams, rows, metrics = zip(*collected, strict=True)
        together = streams_together(streams)
        by_name = dict(zip(self.names, metrics, strict=True))
        return states, together, rows_together(rows, streams), _metrics(by_name)

    def demonstrate(self, task_keys, key, **how):
        bounds = np.linspace(0, task_keys.shape[0], len(self.parts) + 1).astype(int)
        keys = jax.random.split(key, len(self.parts))
        shown = [
            part.demonstrate(task_keys[first:last], k, **how)
            for part, first, last, k in zip(self.parts, bounds[:-1], bounds[1:], keys, strict=True)
            if last > first
        ]
        streams, rows = zip(*shown, strict=True)
        return streams_together(streams), rows_together(rows, streams)


def streams_together(parts: Sequence[Streams]) -> Streams:
    """Streams [N_i, T_i] one behind the other, [sum of N_i, largest T_i], of tasks 0, 1, ...

    Fields that not all have are left out.
    """
    turns = max(part.mask.shape[1] for part in parts)
    first, numbered = 0, []
    for task, part in enumerate(parts):
        count = part.mask.shape[0]
        alone = jnp.zeros(count, jnp.int32)
        numbered.append(
            part.replace(
                group=None if part.group is None else part.group + first,
                episode=None if part.episode is None else part.episode + first,
                parent=None
                if part.parent is None
                else jnp.where(part.parent < 0, -1, part.parent + first),
                role=alone if part.role is None else part.role,
                task=alone + task,
                first_state=None,
            )
        )
        first += count

    def join(*fields):
        if any(field is None for field in fields):
            return None
        return jnp.concatenate(
            [_longer(field, turns) if field.ndim > 1 else field for field in fields]
        )

    return jax.tree.map(join, *numbered, is_leaf=lambda x: x is None)


def rows_together(parts: Sequence[Rows], streams: Sequence[Streams] | None = None) -> Rows:
    """Rows [R_i, L_i] one behind the other, [sum of R_i, largest L_i], padded without training.

    streams: that they belong to, which are put together in the same order.
    """
    length = max(part.tokens.shape[1] for part in parts)
    first, numbered = 0, []
    for i, part in enumerate(parts):
        by_position = part.replace(stream=None, role=None)
        longer = jax.tree.map(lambda x: _longer(x, length), by_position)
        fill = {"turn": -1, "span": -1}
        # Nothing is cut where nothing was drawn, so that logits stay finite.
        fill |= {} if part.legal is None else {"legal": True}
        longer = longer.replace(
            stream=part.stream + first,
            role=part.role,
            **{name: _longer(getattr(part, name), length, value) for name, value in fill.items()},
        )
        numbered.append(longer)
        first += 0 if streams is None else streams[i].mask.shape[0]
    return jax.tree.map(lambda *x: jnp.concatenate(x), *numbered)


def _longer(x: jax.Array, size: int, fill: int | bool = 0) -> jax.Array:
    """Its second axis padded to `size`."""
    extra = size - x.shape[1]
    return jnp.pad(x, ((0, 0), (0, extra), *[(0, 0)] * (x.ndim - 2)), constant_values=fill)


def _metrics(parts: Mapping[str, dict[str, jax.Array]]) -> dict[str, chex.Array]:
    out: dict[str, jax.Array] = {}
    for name, metrics in parts.items():
        for metric, value in metrics.items():
            out[f"{name}/{metric}"] = value
            before = out.get(metric, jnp.zeros(2))
            total = before + value
            out[metric] = total.at[1].set(value[1]) if metric in _COUNTS else total
    return out
