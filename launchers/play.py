"""Plays an episode in the terminal: what an agent reads, what it may write, what it gets.

    python -m launchers.play --env=Coin-v1 --wording=faithful --options=quest_length=6
    python -m launchers.play --env=Sokoban-v1 --player=expert --options="size=(7, 7), boxes=2"
    python -m launchers.play --run=runs/household

A person types commands, ? for all that are legal, nothing more (control-D) to leave. What is not
understood is an illegal action, as it is for a policy.
"""

import ast
import pathlib
from collections.abc import Callable
from typing import Any

from absl import flags

from launchers import cli

_ENV = flags.DEFINE_string("env", None, "Name of the environment, for example Coin-v1.")
_PLAYER = flags.DEFINE_enum("player", "person", ["person", "expert", "random"], "Who plays.")
_WORDING = flags.DEFINE_string("wording", None, "How the environment words itself.")
_RUN = flags.DEFINE_string("run", None, "A run whose newest checkpoint plays its own game.")
_OPTIONS = flags.DEFINE_string("options", "", "Options of the environment: name=value, ...")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the task and of all chance.")

# Commands that are shown at every turn; ? shows the others.
_SHOWN = 12


def main(argv: list[str]) -> None:
    """Makes the environment, plays one episode."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is no flag; write --env=...")
    if (_ENV.value is None) == (_RUN.value is None):
        cli.fail("name an environment (--env=Coin-v1) or the directory of a run (--run=runs/x)")
    cli.use_compilation_cache()
    import jax

    import envs

    if _RUN.value is not None:
        _play_run(pathlib.Path(_RUN.value), jax.random.key(_SEED.value))
        return

    try:
        options = parse_options(_OPTIONS.value)
        if _WORDING.value is not None:
            options["wording"] = _WORDING.value
        env, params = envs.make(_ENV.value, **options)
        play(env, params, _PLAYER.value, jax.random.key(_SEED.value))
    except (ValueError, NotImplementedError) as error:
        cli.fail(error)


def _play_run(workdir: pathlib.Path, key: Any) -> None:
    from agentrl.training import checkpoint, restored

    try:
        run = restored.load(workdir)
        if _first(run).rollout.play is None:
            raise ValueError(
                f"{workdir} holds a policy over arrays, which writes nothing; see its episodes in "
                "the report (launchers.report)"
            )
    except (ValueError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(error)
    show_conversation(run, key)


def _first(run: Any) -> Any:
    return next(iter(run.experiment.tasks.values()))


def show_conversation(run: Any, key: Any, *, tell: Callable[[str], None] = print) -> float:
    """Shows one conversation of a run's first seed with its first environment; returns its return.

    key: of the task and of all chance.
    """
    import jax
    import numpy as np

    from agentrl.evaluation.transcripts import find_turn
    from agentrl.policies.codec import decode

    task_key, chance_key = jax.random.split(key)
    params = jax.tree.map(lambda x: x[0], run.state.params)
    play_ = jax.jit(_first(run).rollout.play, static_argnums=3)
    streams, rows = jax.device_get(play_(params, task_key[None], chance_key, False))
    codec, total = run.experiment.policy.codec, 0.0
    for t in np.flatnonzero(streams.mask[0]):
        row, read, written = find_turn(rows, 0, t)
        tell(f"\n{decode(codec, rows.tokens[row, read])}")
        chance = np.exp(rows.behaviour_logp[row, written].sum())
        invalid = "" if streams.valid[0, t] else ", invalid"
        reward = float(streams.reward[0, t])
        reply = decode(codec, rows.tokens[row, written])
        tell(f"> {reply}   (p {chance:.2f}, reward {reward:g}{invalid})")
        total += reward
    won = bool(streams.success.any())
    tell(f"\n{'success' if won else 'no success'} after {int(streams.mask.sum())} turns")
    return total


def parse_options(text: str) -> dict[str, Any]:
    """Options written as keyword arguments; a word without quotes is a string.

    Raises:
      ValueError: the text is something else.
    """
    try:
        call = ast.parse(f"options({text})", mode="eval").body
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError
        return {keyword.arg: _literal(keyword.value) for keyword in call.keywords}
    except (AttributeError, SyntaxError, ValueError):
        raise ValueError(
            f"--options={text!r}: expected name=value, ..., for example size=(7, 7), boxes=2"
        ) from None


def _literal(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def play(
    env: Any,
    params: Any,
    player: str,
    key: Any,
    *,
    ask: Callable[[str], str] = input,
    tell: Callable[[str], None] = print,
) -> float:
    """Plays one episode and returns its return.

    player: "person", who is asked (`ask` raises EOFError to leave), "expert" or "random".
    key: of the task and of all chance.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    if env.num_agents > 1:
        raise ValueError(f"{env.name} has {env.num_agents} agents: here one plays")
    reset_key, key = jax.random.split(key)
    observation, state = jax.jit(env.reset_env)(reset_key, params)
    step, truncated = jax.jit(env.step_env), jax.jit(env.is_truncated)
    legal_actions, expert = jax.jit(env.legal_actions), jax.jit(env.expert)
    read, write, understand = _in_words(env, params) if env.wordings else _in_signs(env, params)
    if env.wordings:
        tell(env.view.rules)
    total, steps, ended = 0.0, 0, False
    while not ended:
        tell(f"\n{read(state, observation)}")
        legal = np.flatnonzero(legal_actions(state, params)[0])
        commands = write(state)
        left_out = f", and {len(legal) - _SHOWN} more" if len(legal) > _SHOWN else ""
        tell(f"[{', '.join(commands[action] for action in legal[:_SHOWN])}{left_out}]")
        key, act_key, step_key = jax.random.split(key, 3)
        if player == "person":
            try:
                while (reply := ask("> ")).strip() == "?":
                    tell(", ".join(commands[action] for action in legal))
            except EOFError:
                break
            action = understand(state, reply)
        else:
            action = int(
                expert(state, params)
                if player == "expert"
                else jax.random.choice(act_key, jnp.asarray(legal))
            )
            # Free text has an action's number and no entry among the commands.
            tell(f"> {commands[action] if action < len(commands) else f'(action {action})'}")
        observation, state, reward, terminated, info = step(
            step_key, state, jnp.int32(action), params
        )
        total, steps = total + float(reward), steps + 1
        illegal = "" if bool(info["valid"]) else ", illegal"
        tell(f"reward {float(reward):g}{illegal}")
        ended = bool(terminated) or bool(truncated(state, params))
    if ended:
        tell(f"\n{read(state, observation)}")
    won = ended and env.has_success and bool(info["success"])
    outcome = "success" if won else "ended" if ended and bool(terminated) else "time is up"
    count = "1 step" if steps == 1 else f"{steps} steps"
    tell(f"\n{outcome if ended else 'left'} after {count}, return {total:g}")
    return total


def _in_words(env: Any, params: Any) -> tuple[Callable, Callable, Callable]:
    """How to read a state, list its commands and understand a reply, by the text view."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from envs.text import join, make_grammar, parse

    view, grammar = env.view, make_grammar("bare")
    # Long enough for free text; what is longer is no command.
    size = max(64, 2 * view.max_command_bytes)
    describe, commands = jax.jit(env.describe), jax.jit(env.commands)

    @jax.jit
    def parsed(state, reply, length):
        return parse(grammar, view, view.slots(state, params), reply, length).actions[0]

    def read(state, observation):
        return join(view.lexicon, describe(state, params).fragments)

    def write(state):
        return [join(view.lexicon, row) for row in np.asarray(commands(state, params))]

    def understand(state, reply):
        data = reply.encode()
        if len(data) > size:
            return -1
        padded = np.frombuffer(data.ljust(size, b"\0"), np.uint8)
        return int(parsed(state, padded, jnp.int32(len(data))))

    return read, write, understand


def _in_signs(env: Any, params: Any) -> tuple[Callable, Callable, Callable]:
    """The same of an environment without text: its picture, or else numbers; names of actions."""
    import numpy as np

    def read(state, observation):
        try:
            return env.render(state, params)
        except NotImplementedError:
            return str(np.asarray(observation))

    def understand(state, reply):
        names = [name.lower() for name in env.action_names]
        reply = reply.strip().lower()
        return names.index(reply) if reply in names else -1

    return read, lambda state: list(env.action_names), understand


if __name__ == "__main__":
    cli.run(main)
