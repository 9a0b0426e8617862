"""Language policies as tables over a game's information states.

An information state fixes what the player has read and, with perfect recall, the commands that it
has written, so it fixes the prompt in every context without summaries. The policy there is

    pi(a | I) = p(reply a | prompt of I) / sum_b p(reply b | prompt of I),    b legal,

with the well-formed reply of each command, EOS included. For constrained replies the sum is 1 and
this is exact; others may also write what is no legal command, which the game answers by its own
rules, and which `command_probability` measures. Grammars with more than one reply per command
(thoughts, tags around which text is free) have no table.
"""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.contexts import Context
from agentrl.actors.text_agent import TextAgent
from agentrl.actors.text_source import commanded, commands, text_agent
from agentrl.actors.types import View
from agentrl.policies.codec import Tokens
from agentrl.policies.language import LanguagePolicy
from agentrl.selfplay.sequence_form import SequenceForm
from agentrl.streams import Rows
from envs.environment import Environment, EnvParams
from envs.vector import World


def has_table(policy: LanguagePolicy, context: Context) -> bool:
    """Whether an information state fixes the prompt, and a command the reply."""
    cut = policy.cuts and not policy.constrained
    fixed = context.limit is None and not context.branch and policy.behaviour is None
    return fixed and policy.grammar.name == "bare" and not policy.grammar.faithful and not cut


def make_spoken(
    policy: LanguagePolicy,
    env: Environment,
    env_params: EnvParams,
    context: Context,
    form: SequenceForm,
) -> Callable[[chex.ArrayTree], tuple[jax.Array, jax.Array]]:
    """(params) -> (policy f32[I, A], probability f32[I] that the reply is a legal command).

    The prompts are composed once, here; a call is one forward pass of I * A rows.
    """
    rows = _rows(policy, env, env_params, context, form)
    legal = np.asarray(form.legal)

    def spoken(params: chex.ArrayTree) -> tuple[jax.Array, jax.Array]:
        logp = policy.score(params, rows, needed=rows.loss_mask).logp
        logp = jnp.sum(jnp.where(rows.loss_mask, logp, 0.0), axis=1).reshape(legal.shape)
        logp = jnp.where(legal, logp, -jnp.inf)
        return jax.nn.softmax(logp), jnp.sum(jnp.exp(logp), axis=1)

    return spoken


def _rows(policy, env, env_params, context, form) -> Rows:
    """The prompt of each information state with each command behind it, [I * A, L]."""
    world = World(env, env_params)
    agent = text_agent(policy, world, context, turns=len(form.levels))
    prompts, said = jax.device_get(jax.jit(lambda: _texts(agent, world, form))())
    (count, actions), size = form.legal.shape, said.tokens.shape[2]
    if prompts.cut.any() or said.cut[form.legal].any():
        raise ValueError(
            f"{env.name} in context {context.name!r}: a prompt or a command does not fit into a "
            "row; leave context_tokens and max_new_tokens to their defaults"
        )
    width = prompts.tokens.shape[1] + size
    tokens = np.full((count, actions, width), policy.codec.pad, np.int32)
    mask = np.zeros((count, actions, width), bool)
    cut = np.ones((count, actions, width, policy.codec.vocab_size), bool) if policy.cuts else None
    for i, a in np.ndindex(count, actions):
        start = prompts.length[i]
        tokens[i, a, :start] = prompts.tokens[i, :start]
        if not form.legal[i, a]:
            continue
        end = start + said.length[i, a]
        tokens[i, a, start:end] = said.tokens[i, a, : said.length[i, a]]
        mask[i, a, start:end] = True
        if cut is not None:
            cut[i, a, start:end] = _continuations(said, form.legal[i], i, a, cut.shape[-1])
    flat = count * actions
    role = np.array(env.roles_of_seats, np.int32)[form.player]
    return Rows(
        tokens=jnp.asarray(tokens.reshape(flat, width)),
        loss_mask=jnp.asarray(mask.reshape(flat, width)),
        stream=jnp.arange(flat),
        turn=jnp.zeros((flat, width), jnp.int32),
        behaviour_logp=jnp.zeros((flat, width)),
        legal=None if cut is None else jnp.asarray(cut.reshape(flat, width, -1)),
        role=jnp.asarray(np.repeat(role, actions)),
    )


def _continuations(said: Tokens, legal: np.ndarray, i: int, a: int, vocabulary: int) -> np.ndarray:
    """Tokens that continue a legal command at each position of reply a, bool[length, V]."""
    own = said.tokens[i, a, : said.length[i, a]]
    allowed = np.zeros((len(own), vocabulary), bool)
    for b in np.flatnonzero(legal):
        other = said.tokens[i, b, : said.length[i, b]]
        for t in range(min(len(own), len(other))):
            allowed[t, other[t]] = True
            if own[t] != other[t]:
                break
    return allowed


def _texts(agent: TextAgent, world: World, form: SequenceForm) -> tuple[Any, Tokens]:
    """(prompts of the information states [I, ...], replies of all actions [I, A, ...])."""
    states = jax.vmap(world.env.at)(form.states)
    past = _own_past(form)
    memory = agent.init(None, len(form.player))
    for t in range(past.shape[1]):
        view = _view(states, form, past[:, t])
        _, memory = commanded(agent, world, memory, view, past[:, t, 1])
    now = np.arange(len(form.player))
    view = _view(states, form, np.stack([now, now * 0], axis=1))
    prompt = jax.tree.map(lambda x: x[:, 0], agent.prompt(memory, view))
    return prompt, commands(agent, world, view)


def _view(states: chex.ArrayTree, form: SequenceForm, row: np.ndarray) -> View:
    """Views of each information state's player in the states of `row` i32[I, 2]; -1: none."""
    at = np.maximum(row[:, 0], 0)
    state = jax.tree.map(lambda x: x[at], states)
    acting = jnp.asarray(row[:, :1] >= 0)
    return View(jnp.asarray(form.player)[:, None], acting, None, None, state)


def _own_past(form: SequenceForm) -> np.ndarray:
    """(row, action) of the player's own earlier turns, i32[I, T, 2], oldest first; -1 for none."""
    count, actions = form.legal.shape
    past = []
    for row in range(count):
        turns, sequence = [], int(form.parent[row])
        while sequence < count * actions:
            turns.append(divmod(sequence, actions))
            sequence = int(form.parent[turns[-1][0]])
        past.append(turns[::-1])
    longest = max(map(len, past))
    out = np.full((count, longest, 2), -1, np.int32)
    for row, turns in enumerate(past):
        if turns:
            out[row, : len(turns)] = turns
    return out
