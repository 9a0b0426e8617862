"""What policies of every kind have in common, for annotations."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

import chex
import jax

from agentrl.policies.scoring import Adapters, Scored
from agentrl.streams import Rows
from envs.environment import AnyEnvironment

if TYPE_CHECKING:
    from agentrl.policies.actor_critic import Policy
    from agentrl.policies.codec import Codec
    from agentrl.policies.language import LanguagePolicy
    from envs.text import Grammar

# A policy of one of the two kinds.
EitherPolicy: TypeAlias = "Policy | LanguagePolicy"
# What a policy of each kind is called.
KINDS = {"arrays": "a policy over arrays", "language": "a language policy"}


class AnyPolicy(Protocol):
    """A policy over arrays or over text: what `actor_critic.Policy` and `language.LanguagePolicy`
    share. Where a policy of one kind has nothing, it says so itself: None, 0 or {}. Code that has
    to decide between the two has an `EitherPolicy`.
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
    def kind(self) -> Literal["arrays", "language"]:
        """Its name in `KINDS`, for tables and messages."""

    @property
    def outputs(self) -> dict[str, Callable[..., jax.Array]]:
        """{name: (params, rows, arrays) -> [R, L, ...]}: what it says of rows beside `score`."""

    @property
    def num_answers(self) -> int:
        """How many answers its head for the belief question knows; 0 without that head."""

    @property
    def codec(self) -> "Codec | None":
        """Its tokens; None if it has none."""

    @property
    def grammar(self) -> "Grammar | None":
        """The format of its replies; None if it writes none."""

    @property
    def load(self) -> Callable[..., chex.ArrayTree] | None:
        """Reads published weights; None: there are none."""

    @property
    def adapters(self) -> Adapters:
        """Its low-rank adapters."""

    @property
    def heads(self) -> dict[str, int]:
        """Numbers of attention heads, by option, which tensor parallelism divides; {}: none."""

    @property
    def attention(self) -> str:
        """The implementation of its attention; "none" without attention."""

    def memory(self, batch: int) -> chex.ArrayTree | None:
        """Its memory before an episode's first turn, beside what a context keeps, or None."""

    def within(self, env: AnyEnvironment) -> Self:
        """The policy as it acts in an environment of the run. ValueError if it cannot."""

    def elsewhere(self, env: AnyEnvironment, played: Iterable[str]) -> Self:
        """The policy in another environment than those `played` in training. ValueError if it
        cannot act there."""

    def among_several(self) -> Self:
        """The policy whose rows are of several environments."""

    def score(self, params: chex.ArrayTree, rows: Rows, needed: jax.Array | None = None) -> Scored:
        """Log-probability, entropy and value at each position of the rows, at least where they are
        `needed`, bool[R, L]."""

    def shared_positions(self, length: int) -> int:
        """Leading positions of rows of this length whose forward pass all rows share."""

    def step_counts(self, trained: Iterable[jax.Array]) -> dict[str, jax.Array]:
        """{metric: f32[]}: what adds up over optimizer steps. trained: bool[R, L] per source."""
