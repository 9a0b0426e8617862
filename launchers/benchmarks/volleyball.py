"""Suite `volleyball`: control steps per second of matches with a small policy, by layout.

One call is a scan of 64 control steps of a batch of matches under one MLP of 64-64 units for all
drones, with automatic reset; the policy's inference and the resets (from starts drawn ahead) are
part of the time. Contenders: components as arrays with the batch last, as `envs.volleyball.rules`
is written; the same by `vmap`, which puts the batch first; and arrays of structs by `vmap`
(`drone_structs`), the straightforward layout.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import envs
from agentrl.evaluation.statistics import wilson
from envs.volleyball import rules
from envs.volleyball.skills import GAMES
from launchers.benchmarks import drone_structs
from launchers.benchmarks.tables import spread, table
from launchers.benchmarks.timing import Plan, Ready, carried, interleave

LENGTH = 64
SEEN, UNITS = 19, 64


def weights(key: jax.Array, outputs: int) -> list[tuple[jax.Array, jax.Array]]:
    """Weights of an MLP, [out, in] and [out] each."""
    sizes = (SEEN, UNITS, UNITS, outputs)
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        (jax.random.normal(k, (m, n)) * (0.5 / n**0.5), jnp.zeros(m))
        for k, n, m in zip(keys, sizes, sizes[1:], strict=False)
    ]


def inferred(layers: list, x: jax.Array) -> jax.Array:
    """The MLP on columns [in, N]."""
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(weight @ x + bias[:, None])
    weight, bias = layers[-1]
    return jnp.tanh(weight @ x + bias[:, None])


def components(env: Any, match: rules.Match) -> jax.Array:
    """The policy's observation, f32[19, D, ...]."""
    ball, drones = rules.seen(match), match.drones
    near = [b - d for b, d in zip(ball.position, drones.position, strict=True)]
    own = [*drones.position, *drones.attitude, *drones.velocity, *drones.spin]
    return jnp.stack([*own, *near, *ball.velocity])


def contender(layout: str, teams: str, batch: int, length: int = LENGTH) -> Ready:
    """A compiled call of `length` control steps of `batch` matches; layout "components", "vmap" or
    "structs"."""
    env, params = envs.make("Volleyball-v1", teams=teams, actions="rates")
    last = -1 if layout == "components" else 0

    def first(key):
        match = env.initial(key, params).match
        return drone_structs.of_match(match) if layout == "structs" else match

    def one(layers, match):
        """A control step of one match under vmap, including its drones' policy."""
        if layout == "structs":
            command = inferred(layers, drone_structs.features(match).T).T
            return drone_structs.tick(match, command, env.game.court)
        command = inferred(layers, components(env, match))
        return env.tick(match, tuple(command))

    def batched(layers, match):
        if layout != "components":
            return jax.vmap(one, in_axes=(None, 0))(layers, match)
        x = components(env, match)
        command = inferred(layers, x.reshape(SEEN, -1)).reshape(-1, *x.shape[1:])
        return env.tick(match, tuple(command))

    def segment(carry):
        match, starts, layers, ended = carry

        def step(carry, _):
            match, ended = carry
            match = batched(layers, match)
            lost = match.lost if last else jnp.moveaxis(match.lost, 0, -1)
            done = jnp.any(lost, axis=0) | (match.ticks >= 750)

            def renew(new, old):
                shape = (-1, *[1] * (old.ndim - 1)) if last == 0 else (-1,)
                return jnp.where(done.reshape(shape), new, old)

            match = jax.tree.map(renew, starts, match)
            return (match, ended + jnp.sum(done, dtype=jnp.int32)), None

        (match, ended), _ = jax.lax.scan(step, (match, ended), length=length)
        return match, starts, layers, ended

    @jax.jit
    def start(key):
        draw_key, layer_key = jax.random.split(key)
        keys = jax.random.split(draw_key, batch)
        starts = jax.vmap(first, out_axes=last)(keys)
        layers = weights(layer_key, env.num_actions)
        return jax.tree.map(jnp.copy, starts), starts, layers, jnp.zeros((), jnp.int32)

    call, seconds = carried(segment, start(jax.random.key(0)))
    return Ready(call, float(batch * length), seconds, lambda: {"ended": int(call()[3])})


LAYOUTS = ("components", "vmap", "structs")


def rally(env: Any, params: Any, episodes: int) -> dict[str, Any]:
    """Matches of the scripted planner and controllers: touches, crossings, seconds."""

    def play(key):
        def step(carry, _):
            state, crossings = carry
            _, state, _, _, info = env.step_env(key, state, env.expert(state, params), params)
            return (state, crossings + info["crossed"]), None

        start = (env.initial(key, params), jnp.zeros((), jnp.int32))
        (state, crossings), _ = jax.lax.scan(
            step, start, length=env.default_params.max_steps_in_episode
        )
        match = state.match
        return match.hits, crossings, match.ticks * rules.STEP_SECONDS, match.over

    keys = jax.random.split(jax.random.key(0), episodes)
    hits, crossings, seconds, over = jax.jit(jax.vmap(play))(keys)
    return {
        "hits": float(jnp.mean(hits)),
        "crossings": float(jnp.mean(crossings)),
        "seconds": float(jnp.mean(seconds)),
        "at_the_limit": float(jnp.mean(~over)),
    }


def success(teams: str, skill: str, only: str, episodes: int) -> dict[str, Any]:
    """Success rate of the scripted controller at a skill, with Wilson's interval of 95 %."""
    env, params = envs.make("VolleyballSkill-v1", teams=teams, skill=skill, only=only)

    def play(key):
        def step(state, _):
            _, state, _, _, _ = env.step_env(key, state, env.expert(state, params), params)
            return state, None

        length = env.default_params.max_steps_in_episode
        state, _ = jax.lax.scan(step, env.initial(key, params), length=length)
        return env.is_success(state, params), state.struck, state.miss

    keys = jax.random.split(jax.random.key(0), episodes)
    won, struck, miss = jax.jit(jax.vmap(play))(keys)
    wins = int(jnp.sum(won))
    interval = wilson(wins, episodes)
    row = {"game": teams, "skill": f"{skill}: {only}", "episodes": episodes}
    row |= {"success": wins / episodes, "low": float(interval[0]), "high": float(interval[1])}
    if skill == "hit":
        row["struck"] = float(jnp.mean(struck))
        row["median_miss"] = float(jnp.nanmedian(jnp.where(struck, miss, jnp.nan)))
    return row


def experts(games: Sequence[str], episodes: int) -> dict[str, Any]:
    """Results of the scripted players: {"rallies", "skills"}."""
    rallies, rows = [], []
    for game in games:
        planar = game == "plane"
        options = {} if planar else {"teams": game}
        env, params = envs.make("PlanarVolleyball-v1" if planar else "Volleyball-v1", **options)
        rallies.append({"game": game, "episodes": episodes, **rally(env, params, episodes)})
        known_game = GAMES[game]
        known = {s.name: s for role in (*known_game.roles, known_game.serves) for s in role}
        for name, entry in known.items():
            kind = "goto" if entry.target is None else "hit"
            rows.append(success(game, kind, name, episodes))
    return {"rallies": rallies, "skills": rows}


def run(
    plan: Plan,
    *,
    batches: Sequence[int],
    teams: Sequence[str] = ("1v1", "3v3"),
    games: Sequence[str] = tuple(GAMES),
    length: int = LENGTH,
    episodes: int = 1000,
) -> dict[str, Any]:
    """Measures: {"rows", "length"} and results of the scripted players."""
    rows = []
    for batch in batches:
        for game in teams:
            ready = [(name, contender(name, game, batch, length)) for name in LAYOUTS]
            timings = interleave(ready, plan)
            for timing in timings:
                row = {"game": game, "batch": batch, **timing.record()}
                row["range"] = spread(row["rate_low"], row["rate_high"])
                row["ratio_to_structs"] = timing.rate / timings[-1].rate
                rows.append(row)
    return {"rows": rows, "length": length, **experts(games, episodes)}


COLUMNS = (
    ("game", ""),
    ("name", ""),
    ("batch", ","),
    ("rate", ",.0f"),
    ("range", ""),
    ("ratio_to_structs", ".1f"),
    ("ended", ","),
    ("compile_seconds", ".1f"),
)


RALLIES = (
    ("game", ""),
    ("episodes", ","),
    ("hits", ".2f"),
    ("crossings", ".2f"),
    ("seconds", ".1f"),
    ("at_the_limit", ".2f"),
)
SUCCESS = (
    ("skill", ""),
    ("game", ""),
    ("episodes", ","),
    ("success", ".3f"),
    ("low", ".3f"),
    ("high", ".3f"),
    ("struck", ".3f"),
    ("median_miss", ".2f"),
)


def report(result: dict[str, Any]) -> str:
    """Steps per second by layout, and results of the scripted players, as Markdown tables."""
    title = f"Matches' control steps/s (rate) with a 64-64 policy, {result['length']} steps a call"
    return "\n\n".join(
        (
            table(title, COLUMNS, result["rows"]),
            table("Rallies of the scripted planner, limit 15 s", RALLIES, result["rallies"]),
            table("Scripted skills, success with 95 % intervals", SUCCESS, result["skills"]),
        )
    )
