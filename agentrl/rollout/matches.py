"""Matches of several agents, a policy in all seats or against others: for self-play."""

from typing import Any

import chex
import jax
import jax.numpy as jnp

import envs
import envs.vector
from agentrl.policies.actor_critic import Policy
from agentrl.policies.placement import along_data
from agentrl.policies.scoring import join, split
from agentrl.rollout.acting import Acted, Rollout, check_groups, choose, rows_of
from agentrl.rollout.beliefs import Survey, believe, check_beliefs, persuasion
from agentrl.rollout.demonstrated import make_demonstrate
from agentrl.rollout.opponents import make_slots
from agentrl.rollout.players import opponent_named, policy_player
from agentrl.rollout.seats import (
    agents,
    by_agent,
    check_side,
    joint,
    look,
    looked_at,
    parents,
    sides,
    teams,
    where,
)
from agentrl.streams import Streams, to_last_turn
from envs.game import Game


def matches(
    policy: Policy,
    env: Any,
    env_params: Any,
    *,
    num_groups: int = 64,
    group_size: int = 1,
    opponent: str = "self",
    members: int | None = None,
    side: str = "none",
    listeners: str = "none",
    mask_illegal: bool = True,
) -> Rollout:
    """Rollout of num_groups * group_size matches from their start to their end.

    Every agent of every match is a stream, with its seat as role and the match as episode; members
    of a group start from the same task (the same cards), and streams of one seat of a group are
    compared with each other. What an agent receives between one of its turns and the next belongs
    to the earlier one; what it receives before its first turn is lost.

    Args:
      opponent: "self": the policy plays all seats and learns from all. "random" (legal play),
        "expert" (the environment's) or another of `agentrl.rollout.players.scripted`, for example
        "mcts:100", or "pool" (frozen parameters of this policy, which `collect` is given): the
        policy has seat i % A of match i (of teams: all seats of team i % 2), and learns from that.
        Acting against a pool costs twice as much: policy and members are both asked at each step.
      members: how many of the pool are met in a collection, see `agentrl.rollout.opponents`.
      side: the policy has all seats of this one of the environment's `sides` instead, or "none".
      listeners: whose beliefs count in `Streams.persuasion`, "all" of the policy's that are asked
        or those of "others" than the speaker; "none": not filled. See `rollout.beliefs`.
      mask_illegal: the policy chooses among legal actions only.

    A policy without memory gets a row for each move; one with memory sees the moves of others too,
    and gets a row a stream. Streams: N = num_groups * group_size * A, of stream i seat i % A;
    T = the environment's limit.
    """
    if not isinstance(env, Game):
        raise ValueError(
            f"rollout 'matches' with {env.name}, which has one agent: use 'episodes' or 'segments'"
        )
    check_groups(num_groups, group_size)
    turns, seats = int(env_params.max_steps_in_episode), agents(env)
    remembers = policy.memory(1) is not None
    looked = looked_at(env, all_look=remembers)
    count = num_groups * group_size
    team = teams(env)
    slots = make_slots(opponent, members, num_groups, group_size, int(team.max()) + 1)
    check_side(env, side, opponent)
    check_beliefs(policy, env, listeners)
    other = None
    if opponent == "pool":
        other = policy_player(policy, None, greedy=False, mask_illegal=mask_illegal)
    elif opponent != "self":
        other = opponent_named(opponent, env, env_params)

    def theirs(params, opponents, memory, state, asked, key):
        """The opponents' actions i32[B, S], and their memory [members, B / members * S, ...].

        opponents: of members what is trained; what is not they have from the policy's params.
        """
        if slots is None:
            return other.act(other.params, memory, asked, state, key)
        keys = jax.random.split(key, slots.members)
        _, frozen = split(params, policy.frozen)

        def act(member, *rest):
            return other.act(join(member, frozen), *rest)

        cut = (slots.cut(asked), slots.cut(state), keys)
        action, memory = jax.vmap(act)(opponents, memory, *cut)
        return slots.join(action), memory

    def flat(tree):
        """[B, S, ...] as [B * S, ...]."""
        return jax.tree.map(lambda x: x.reshape(count * looked, *x.shape[2:]), tree)

    def collect(params, state, key, opponents=None):
        task_key, act_key = jax.random.split(key)
        starts = envs.vector.draw(env, env_params, jax.random.split(task_key, num_groups))
        first = along_data(jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), starts))
        memory, other_memory = policy.memory(count * looked), None
        if opponent == "pool" and remembers:
            each = policy.memory(count * looked // slots.members)
            other_memory = jax.tree.map(lambda x: jnp.stack([x] * slots.members), each)
        side_of = sides(env, env_params, first.state)
        own = jnp.arange(count, dtype=jnp.int32)[:, None] % (team.max() + 1) == team
        if side != "none":
            own = side_of == env.sides.index(side)

        def advance(carry, key):
            observation, state, (memory, other_memory), running = carry
            sample_key, other_key, step_key = jax.random.split(key, 3)
            seen = look(env, env_params, state, observation, all_look=remembers)
            watched, legal = flat((seen.observation, seen.legal))
            legal = legal if mask_illegal and policy.head.numbered else None
            before = memory
            choice, memory = choose(policy, params, memory, watched, legal, sample_key)
            action = choice.action.reshape(count, looked, *choice.action.shape[1:])
            mine = jnp.ones(seen.seat.shape, bool)
            if other is not None:
                mine = jnp.take_along_axis(own, seen.seat, axis=1)
                asked = seen._replace(acting=running[:, None] & seen.acting & ~mine)
                others, other_memory = theirs(
                    params, opponents, other_memory, state, asked, other_key
                )
                action = where(mine, action, others)
            mask = running[:, None] & seen.acting & mine
            survey = None
            if policy.num_answers:
                asked, truth = jax.vmap(env.belief_question, in_axes=(0, None))(state, env_params)
                survey = Survey(running[:, None] & asked & mine, truth)
                if listeners != "none":
                    survey = believe(policy, params, before, watched, survey)
            observation, state, reward, terminated, truncated, info = envs.vector.step(
                env, env_params, step_key, state, joint(env, seen.seat, action)
            )
            out = {
                "acted": Acted(watched, legal, *choice, jax.vmap(envs.fingerprint)(watched)),
                "acting": running[:, None] & seen.acting,
                "seat": seen.seat,
                "mask": mask,
                "reward": jnp.where(running[:, None], reward, 0.0),
                "terminated": running & terminated,
                "truncated": running & truncated,
                "valid": info["valid"],
                "won": running[:, None] & info["success"],
                "offender": jnp.where(running & terminated, info["offender"], -1),
                "survey": survey,
            }
            if "seconds" in info:  # of simulated time, in games whose steps differ in it
                out["seconds"] = jnp.where(running, info["seconds"], 0.0)
            running = running & ~terminated & ~truncated
            return (observation, state, (memory, other_memory), running), out

        memories = (memory, other_memory)
        carry = (first.observation, first.state, memories, jnp.ones(count, bool))
        (observation, _, (memory, _), _), out = jax.lax.scan(
            advance, carry, jax.random.split(act_key, turns)
        )

        def of_streams(per_agent):
            """[T, B, A, ...] as [N, T, ...]."""
            per_agent = jnp.moveaxis(per_agent, 0, 2)
            return per_agent.reshape(count * seats, turns, *per_agent.shape[3:])

        def looked_on(values):
            """Of who was looked at, [T, B * S, ...], as [N, T, ...]."""
            values = values.reshape(turns, count, looked, *values.shape[2:])
            return of_streams(jax.vmap(lambda s, v: by_agent(env, s, v))(out["seat"], values))

        def of_match(ended):
            """An end [T, B] at the last turn of each of its streams."""
            return to_last_turn(
                of_streams(jnp.broadcast_to(ended[..., None], (*ended.shape, seats))), mask
            )

        mask = looked_on(out["mask"].reshape(turns, -1))
        value = bootstrap = None
        if policy.has_critic:
            value = looked_on(out["acted"].value)
            bootstrap = _last_values(params, memory, observation, mask)
        collected = Streams(
            reward=to_last_turn(of_streams(out["reward"]), mask),
            mask=mask,
            group=(
                jnp.repeat(jnp.arange(num_groups, dtype=jnp.int32), group_size)[:, None] * seats
                + jnp.arange(seats, dtype=jnp.int32)
            ).reshape(-1),
            episode=jnp.repeat(jnp.arange(count, dtype=jnp.int32), seats),
            role=jnp.tile(jnp.arange(seats, dtype=jnp.int32), count),
            task=jnp.zeros(count * seats, jnp.int32),
            anchor=looked_on(out["acted"].anchor),
            value=value,
            bootstrap=bootstrap,
            terminated=of_match(out["terminated"]),
            truncated=of_match(out["truncated"]),
            valid=of_streams(out["valid"]) & mask,
            success=to_last_turn(of_streams(out["won"]), mask),
            parent=parents(env, count),
        )
        acted, survey = out["acted"], out["survey"]
        if listeners != "none":
            moved = persuasion(survey, out["acting"], side_of != 0, among=listeners)
            collected = collected.replace(persuasion=of_streams(moved))
        if survey is not None:
            truth = jnp.broadcast_to(survey.answer[..., None], survey.asked.shape)
            asked, truth = (x.reshape(turns, -1) for x in (survey.asked, truth))
            acted = acted._replace(asked=asked, answer=truth)
        start = jnp.zeros((turns, count * looked), bool)
        rows = rows_of(acted, out["mask"].reshape(turns, -1), start, policy.memory(count * looked))
        if not remembers:
            stream = jnp.arange(count, dtype=jnp.int32)[:, None] * seats + out["seat"]
            rows = rows.replace(stream=stream.reshape(-1))
        metrics = _finished(collected, out, opponent)
        for number, name in enumerate(env.sides):
            plays = jnp.any(collected.mask, axis=1) & (side_of.reshape(-1) == number)
            won = jnp.any(collected.success, axis=1) & plays
            metrics[f"win_rate/{name}/{opponent}"] = jnp.stack([jnp.sum(won), jnp.sum(plays)]) * 1.0
        return state, collected, rows, metrics

    def _last_values(params, memory, observation, mask):
        """f32[N, T]: values of the last states, which absorb; read where a limit cut the match."""
        seen = jax.tree.map(lambda x: x.reshape(count * seats, *x.shape[2:]), observation)
        _, after, _ = policy.step(params, memory if remembers else None, seen)
        return jnp.broadcast_to(after[:, None], mask.shape)

    provides = {"reward", "mask", "group", "episode", "role", "task", "anchor"}
    provides |= {"terminated", "truncated", "valid", "success"}
    if policy.has_critic:
        provides |= {"value", "bootstrap"}
    if env.callers is not None:
        provides |= {"parent"}
    if listeners != "none":
        provides |= {"persuasion"}
    return Rollout(
        init=lambda key: None,
        collect=collect,
        num_streams=count * seats,
        turns=turns,
        units=(num_groups, "config.rollout.num_groups"),
        provides=frozenset(provides),
        properties=frozenset(
            {"whole_episodes", "one_end"}
            | ({"team"} if getattr(env, "cooperative", True) else set())
        ),
        needs=("opponents",) if slots else (),
        num_rows=count * looked * (1 if remembers else turns),
        roles=seats,
        slots=slots,
        demonstrate=make_demonstrate(policy, env, env_params, mask_illegal=mask_illegal),
    )


def _finished(streams: Streams, out: dict, opponent: str) -> dict[str, chex.Array]:
    """Totals and weights over the matches; every one has ended. Roles that do not learn are left
    out by their masks."""
    matches_played, seats = out["won"].shape[1:]
    count = jnp.float32(matches_played)

    def mean(x, of=None):
        weight = count if of is None else jnp.sum(of, dtype=jnp.float32)
        x = x if of is None else jnp.where(of, x, 0)
        return jnp.stack([jnp.sum(x, dtype=jnp.float32), weight])

    won = jnp.any(out["won"], axis=0)
    offended = jnp.any(out["offender"] >= 0, axis=0)
    cut = jnp.any(out["truncated"], axis=0)
    plays = jnp.any(streams.mask, axis=1)
    returns = jnp.sum(streams.reward, axis=1)
    metrics = {
        "episode_return": mean(returns, plays),
        "episode_length": mean(jnp.any(out["mask"], axis=2)),
        "draw_rate": mean(~jnp.any(won, axis=1) & ~offended & ~cut),
        "invalid_end_rate": mean(offended),
        "truncation_rate": mean(cut),
        "invalid_action_rate": mean(~streams.valid, streams.mask),
        "success_rate": mean(jnp.any(streams.success, axis=1), plays),
        "episodes": jnp.stack([count, jnp.float32(1)]),
    }
    if "seconds" in out:
        metrics["episode_seconds"] = mean(jnp.sum(out["seconds"], axis=0))
    for seat in range(seats):
        mine = plays & (streams.role == seat)
        metrics[f"win_rate/{seat}/{opponent}"] = mean(jnp.any(streams.success, axis=1), mine)
        metrics[f"return/{seat}/{opponent}"] = mean(returns, mine)
    return metrics
