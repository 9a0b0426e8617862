"""A run's policy as files that programs without this library read.

Language policies become Hugging Face's files, with tokenizer, chat template and settings of
generation; policies over arrays become plain safetensors with a description of what they are.
"""

import dataclasses
import json
import pathlib
from typing import TYPE_CHECKING, Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors import chat_template
from agentrl.actors.contexts import Context
from agentrl.config.tasks import context_of
from agentrl.players.scripted import scripted
from agentrl.policies import codec as codecs
from agentrl.policies import huggingface, tensor_files, tokenizer_files
from agentrl.policies.codec import Codec, decode
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.seating import seat_all
from agentrl.rollout.unroll import fresh, unroll
from agentrl.run.restored import Run
from agentrl.trained.contestants import spoken_of
from envs.environment import Environment
from envs.vector import World

if TYPE_CHECKING:
    import tokenizers

# Files of a policy over arrays.
ARRAYS = (tensor_files.SINGLE, "policy.json")
# Observations that are compared between codec and tokenizer, of each environment, and the steps of
# random play before them.
_CHECKED, _STEPS = 256, 4
FORMAT = (
    "Parameters of a policy of agentrl. Each tensor of model.safetensors is named by its path in "
    "the tree of parameters, with / between the parts; kernels are [in, out]. policy is the "
    "section of the config that names the network and its options, env the environment's."
)


def export(
    run: Run,
    directory: pathlib.Path,
    *,
    seed: int | None = None,
    dtype: str | None = None,
    overwrite: bool = False,
    role: int | None = None,
) -> list[str]:
    """Writes the policy of one of a run's seeds (default: the first).

    Args:
      dtype, overwrite, role: as in `huggingface.save`.

    Returns:
      What the files do not say of how the policy was trained, in sentences.

    Raises:
      ValueError: no such seed, or a policy that cannot be written.
      FileExistsError: as in `huggingface.save`.
    """
    config, policy = run.config, run.experiment.policy
    seed = config.seed if seed is None else seed
    if not 0 <= seed - config.seed < config.num_seeds:
        last = config.seed + config.num_seeds - 1
        raise ValueError(f"--seed={seed}: the run has seeds {config.seed} to {last}")
    params = jax.tree.map(lambda x: x[seed - config.seed], run.state.params)
    options = {"dtype": dtype, "overwrite": overwrite}
    context = context_of(config)
    if context is None:
        if role is not None:
            raise ValueError(f"--role={role}: a policy over arrays is written with all its roles")
        _write_arrays(run, directory, params, seed, **options)
        return []
    if config.policy.get("rehearsal"):
        raise ValueError(
            "the policy is a rehearsal, a small random model in place of the published one: train "
            "with config.policy.rehearsal=False to export it"
        )
    source = config.policy.get("directory")
    companions, notes = {}, []
    fields: dict[str, Any] = {}
    if source is None or not _has_template(pathlib.Path(source)):
        companions, fields, notes = _format(run, policy, context, source)
    if policy.constrained:
        notes.append("replies were constrained to legal commands; nothing constrains a server's")
    if policy.behaviour is not None and policy.enforce:
        notes.append("replies kept a specified behaviour; nothing enforces it in a server")
    options |= {"source": source, "role": role, "fields": fields, "companions": companions}
    huggingface.save(directory, policy.config, params, **options)
    return notes


def _has_template(source: pathlib.Path) -> bool:
    """Whether a model's directory has a chat template of its own."""
    config = source / "tokenizer_config.json"
    there = config.exists() and "chat_template" in tensor_files.read_json(config)
    return there or (source / "chat_template.jinja").exists()


def _format(
    run: Run, policy: LanguagePolicy, context: Context, source: str | None
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """(files besides the weights, fields of config.json, notes): the run's own format."""
    codec, names = policy.codec, _control_names(policy.codec, source)
    agent = spoken_of(run, next(iter(run.experiment.tasks.values()))).agent
    template = chat_template.chat_template(
        context,
        before=_text(codec, codec.before, names),
        after=_text(codec, codec.after, names),
        end=names[codec.end],
        opening=_text(codec, codec.opening, names) if codec.opening else None,
    )
    length = int(agent.row_tokens)
    ends = {"end": codec.end, "pad": codec.pad}
    shown = {"end": names[codec.end], "pad": names[codec.pad]}
    companions = {
        "tokenizer_config.json": tokenizer_files.tokenizer_config(
            **shown, template=template, length=length
        ),
        "generation_config.json": tokenizer_files.generation_config(
            **ends, sampling=policy.sampling, new_tokens=int(agent.layout.reply_tokens)
        ),
    }
    fields: dict[str, Any] = {}
    notes: list[str] = []
    if source is None:
        tokenizer = tokenizer_files.tokenizer_of(codec)
        companions["tokenizer.json"] = json.loads(tokenizer.to_str())
        fields = {"bos_token_id": None, "eos_token_id": codec.end, "pad_token_id": codec.pad}
        fields["max_position_embeddings"] = length
        notes = _cut_apart(run, codec, tokenizer)
    else:
        kept = pathlib.Path(source) / "tokenizer_config.json"
        if kept.exists():
            companions["tokenizer_config.json"] = tensor_files.read_json(kept) | {
                "chat_template": template
            }
    note = chat_template.left_out(context)
    return companions, fields, notes + [note] * bool(note)


def _cut_apart(run: Run, codec: Codec, tokenizer: "tokenizers.Tokenizer") -> list[str]:
    """A note for each task whose observations the tokenizer cuts into other tokens."""
    notes = []
    plain = dataclasses.replace(codec, before=(), after=())
    for name, task in run.experiment.tasks.items():
        env, params = task.env, task.env_params
        if codec.name != "word":
            continue
        states = _some_states(env, params)
        seen = jax.jit(
            jax.vmap(
                lambda state, env=env, params=params: codecs.render(
                    plain,
                    env.describe_as(state, jnp.int32(0), params),
                    env.view.max_fragments,
                )
            )
        )(states)
        rows = zip(np.asarray(seen.tokens), np.asarray(seen.length), strict=True)
        other = tokenizer_files.cut_apart(codec, tokenizer, [row[:n].tolist() for row, n in rows])
        if other:
            notes.append(
                f"{other} of {_CHECKED} observations of {name} have other tokens by the exported "
                "tokenizer, with the same text: send such prompts as token ids"
            )
    return notes


def _some_states(env: Environment, params: chex.ArrayTree) -> chex.ArrayTree:
    """States after a few steps of random play."""
    world, key = World(env, params), jax.random.key(0)
    actor, seating = scripted("random", env, params), seat_all(env, _CHECKED)

    def played(key):
        start = fresh(world, jax.random.split(key, _CHECKED))
        return unroll(world, [actor], seating, start, key, length=_STEPS).final.state

    return jax.jit(played)(key)


def _control_names(codec: Codec, source: str | None) -> dict[int, str]:
    """The control tokens' names by id, as the tokenizer spells them."""
    if source is None:
        return dict(tokenizer_files.CONTROL)
    added = tensor_files.read_json(pathlib.Path(source) / "tokenizer.json").get("added_tokens", [])
    return {token["id"]: token["content"] for token in added}


def _text(codec: Codec, tokens: tuple[int, ...], names: dict[int, str]) -> str:
    """Tokens as text, control tokens by their names."""
    return "".join(decode(codec, [t]) or names.get(t, "") for t in tokens)


def _write_arrays(
    run: Run,
    directory: pathlib.Path,
    params: chex.ArrayTree,
    seed: int,
    *,
    dtype: str | None,
    overwrite: bool,
) -> None:
    """Parameters as safetensors, and policy.json, which says what they are."""
    arrays = {
        "/".join(str(entry.key) for entry in path): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]
    }
    if dtype is not None:
        arrays = {name: np.asarray(jnp.asarray(x, dtype)) for name, x in arrays.items()}
    config = run.config.to_dict()
    about = {
        "format": FORMAT,
        "policy": config["policy"],
        "env": config["env"],
        "seed": seed,
        "update": run.update,
        "tensors": {name: {"shape": x.shape, "dtype": str(x.dtype)} for name, x in arrays.items()},
    }
    sizes = {name: x.nbytes for name, x in arrays.items()}
    with tensor_files.replacing(directory, overwrite, lambda name: name in ARRAYS) as fresh:
        tensor_files.write_json(fresh / "policy.json", about)
        tensor_files.write_tensors(fresh, sizes, arrays.__getitem__, tensor_files.SHARD_BYTES)
