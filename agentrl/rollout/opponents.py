"""Opponents: who has the seats that the policy has not, and which frozen member each match meets.

With members of a pool, the matches of a collection are cut into as many equal slots as members are
given, and each slot meets one of them: a match has one opponent from its start to its end, and a
member's parameters are gathered once for all its matches. A slot is made of whole blocks of A
groups, of which one after the other belongs to the next slot, so that members of a group meet the
same opponent, and the policy has every seat equally often against each.
"""

from typing import Any, NamedTuple

import chex
import jax
import numpy as np

OPPONENTS = ("self", "random", "expert", "pool")


class Slots(NamedTuple):
    """The matches of a collection, B = blocks * members * width, cut into slots.

    width: matches of A groups.
    """

    blocks: int
    members: int
    width: int

    def cut(self, tree: chex.ArrayTree) -> chex.ArrayTree:
        """[B, ...] as [members, B / members, ...]."""

        def one(x):
            x = x.reshape(self.blocks, self.members, self.width, *x.shape[1:]).swapaxes(0, 1)
            return x.reshape(self.members, self.blocks * self.width, *x.shape[3:])

        return jax.tree.map(one, tree)

    def join(self, tree: chex.ArrayTree) -> chex.ArrayTree:
        """[members, B / members, ...] as [B, ...]: the inverse."""

        def one(x):
            x = x.reshape(self.members, self.blocks, self.width, *x.shape[2:]).swapaxes(0, 1)
            return x.reshape(self.blocks * self.members * self.width, *x.shape[3:])

        return jax.tree.map(one, tree)

    def of_match(self) -> np.ndarray:
        """The slot of each match, i32[B]."""
        slot = np.repeat(np.arange(self.members, dtype=np.int32), self.width)
        return np.tile(slot, self.blocks)


def make_slots(
    opponent: str, members: int | None, num_groups: int, group_size: int, seats: int
) -> Slots | None:
    """The slots of a rollout's matches, None without a pool. ValueError if they do not fit.

    members: by default 4.
    """
    if opponent not in OPPONENTS:
        raise ValueError(f"rollout opponent={opponent!r}: expected one of {', '.join(OPPONENTS)}")
    if opponent != "pool":
        if members is not None:
            raise ValueError(
                f"rollout members={members} with opponent={opponent!r}, which is no pool: leave it "
                "out, or set opponent='pool'"
            )
        return None
    members = 4 if members is None else members
    if members < 1 or num_groups % (members * seats):
        raise ValueError(
            f"rollout members={members}, num_groups={num_groups}: expected a multiple of "
            f"members * {seats} seats as num_groups, so that each member meets the policy in every "
            "seat equally often"
        )
    return Slots(num_groups // (members * seats), members, seats * group_size)


def check_expert(env: Any, env_params: Any) -> None:
    """ValueError unless the environment has an expert."""
    state = jax.eval_shape(lambda key: env.initial(key, env_params), jax.random.key(0))
    try:
        jax.eval_shape(lambda s: env.expert(s, env_params), state)
    except NotImplementedError as error:
        raise ValueError(
            f"rollout opponent='expert': {error}; use 'self', 'random' or 'pool'"
        ) from None
