"""What policies of every kind have in common, for annotations."""

from collections.abc import Callable
from typing import Protocol

import chex
import jax

from agentrl.policies.scoring import Scored
from agentrl.streams import Rows


class AnyPolicy(Protocol):
    """A policy over arrays or over text: what `actor_critic.Policy` and `language.LanguagePolicy`
    share. Code that decides between the two by `reads_text` names both classes instead.
    """

    @property
    def init(self) -> Callable[[jax.Array], chex.ArrayTree]:
        """(key) -> all parameters, trained and frozen, drawn with the key."""

    @property
    def has_critic(self) -> bool:
        """Whether its value is learnt."""

    @property
    def frozen(self) -> tuple[str, ...]:
        """Entries of params that are not trained."""

    @property
    def reads_text(self) -> bool:
        """Whether it reads text, and not arrays."""

    @property
    def outputs(self) -> dict[str, Callable[..., jax.Array]]:
        """{name: (params, rows, arrays) -> [R, L, ...]}: what it says of rows beside `score`."""

    def score(self, params: chex.ArrayTree, rows: Rows) -> Scored:
        """Log-probability, entropy and value at each position of the rows."""
