"""A run's policy in files: what transformers reads of it is what the policy reads and writes."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import tiny
from experiments import lake

import envs
from agentrl import advantages, policies
from agentrl.actors import contexts, prompts
from agentrl.config import env_section, section
from agentrl.config.build import build
from agentrl.config.tasks import context_of
from agentrl.policies import huggingface, new_model, tokenizer_files
from agentrl.policies.codec import decode
from agentrl.policies.typed import typed_reply
from agentrl.run import restored
from agentrl.trained import exported
from agentrl.trained.contestants import conversation_of

transformers = pytest.importorskip("transformers")


def run_of(config):
    """A run that has not begun to learn, as it is read back from its directory."""
    experiment = build(config)
    state = jax.tree.map(lambda x: x[None], jax.jit(experiment.init)(0))
    return restored.Run(config, experiment, 0, state)


def talk(context, **policy):
    config = tiny.talk_config(warm_start__updates=0)
    config.context = context
    config.policy.update(policy)
    return run_of(config)


CONTEXTS = {
    "whole": (section(contexts.whole), {}),
    "whole, bytes": (section(contexts.whole), {"codec": "byte"}),
    "the new observation": (section(contexts.window, history=0), {}),
    "a window": (section(contexts.window, history=1, keep_first=True, replies=2), {}),
    "sliding": (section(contexts.sliding, history=1), {"codec": "byte"}),
    "strides": (section(contexts.sliding, history=1, stride=2), {"codec": "byte"}),
    "a text in observations": (
        section(contexts.whole, inject="hint 'a\\b'\n", inject_every=2),
        {"codec": "byte"},
    ),
}


def turns(run, count=4):
    """(messages so far, tokens of the prompt) of each turn of an episode of legal commands."""
    task = next(iter(run.experiment.tasks.values()))
    talked, said = conversation_of(run, task, 0, True), []
    talked.begin(jax.random.key(3))
    for _ in range(count):
        if talked.standing.ended:
            break
        _, prompt = talked._shown()
        state = jax.tree.map(lambda x: x[0], talked._now.state)
        text = task.env.describe_as(state, jnp.int32(0), task.env_params)
        words = [task.env.view.lexicon[i] for i in text.fragments[: int(text.length)]]
        said.append({"role": "user", "content": "".join(words)})
        yield list(said), prompt.tokens[0, 0, : int(prompt.length[0, 0])].tolist()
        commands, legal = talked.commands(0)
        command = next(c for c, ok in zip(commands, legal, strict=True) if ok)
        said.append({"role": "assistant", "content": command})
        codec = run.experiment.policy.codec
        talked.step({0: typed_reply(codec, command, talked.text.layout.reply_tokens)})


@pytest.mark.parametrize("name", CONTEXTS)
def test_the_chat_template_writes_the_prompts_of_the_context(name, tmp_path):
    pytest.importorskip("jinja2")
    context, policy = CONTEXTS[name]
    run = talk(context, **policy)
    assert exported.export(run, tmp_path / "out") == []
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    form, own, number = prompts.format_of(run.experiment.policy.codec), context_of(run.config), 0
    for number, (messages, prompt) in enumerate(turns(run), 1):
        assert prompts.prompt_of(form, own, messages) == prompt, (number, messages)
        shown = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        assert shown["input_ids"] == prompt, (number, messages)
    assert number >= 3


def test_tokens_keep_their_numbers_and_texts(tmp_path):
    run = talk(*CONTEXTS["whole"][:1])
    exported.export(run, tmp_path / "out")
    tokenizer, codec = (
        transformers.AutoTokenizer.from_pretrained(tmp_path / "out"),
        run.experiment.policy.codec,
    )
    assert len(tokenizer) == codec.vocab_size
    for token in range(3, codec.vocab_size):
        text = decode(codec, [token])
        assert tokenizer.encode(text, add_special_tokens=False) == [token], text
        assert tokenizer.decode([token]) == text
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (codec.end, codec.pad)
    assert tokenizer.bos_token is None
    assert tokenizer.decode([codec.end], skip_special_tokens=True) == ""


def test_weights_and_settings_are_the_runs(tmp_path):
    run = talk(section(contexts.whole), temperature=0.7)
    exported.export(run, tmp_path / "out")
    config, params = huggingface.load(tmp_path / "out")
    own = jax.tree.map(lambda x: x[0], run.state.params)
    own = {name: own[name] for name in params}
    jax.tree.map(np.testing.assert_array_equal, params, own)
    assert dataclasses.replace(run.experiment.policy.config, value_heads=0) == config
    generation = json.loads((tmp_path / "out/generation_config.json").read_text())
    assert generation["temperature"] == 0.7 and generation["eos_token_id"] == 1
    fields = json.loads((tmp_path / "out/config.json").read_text())
    assert (fields["eos_token_id"], fields["pad_token_id"]) == (1, 0)


def test_what_a_template_cannot_say_is_said(tmp_path):
    context = section(contexts.summary, limit=80, summary_tokens=4)
    run = talk(context, codec="byte", constrained=True)
    notes = exported.export(run, tmp_path / "out")
    assert len(notes) == 2 and "summaries from 80 tokens" in notes[0] and "legal" in notes[1]


def test_adapters_of_several_roles_need_one(tmp_path):
    run = talk(section(contexts.whole))
    view = run.experiment.env.view
    sizes = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
    policy = policies.transformer(view, **sizes, lora_rank=2, lora_roles=2)
    params = jax.tree.map(lambda x: x[None], policy.init(jax.random.key(0)))
    tasks = {name: task._replace(policy=policy) for name, task in run.experiment.tasks.items()}
    experiment = run.experiment._replace(tasks=tasks)
    run = run._replace(experiment=experiment, state=run.state.replace(params=params))
    with pytest.raises(ValueError, match="role"):
        exported.export(run, tmp_path / "out")
    exported.export(run, tmp_path / "out", role=1)
    assert (tmp_path / "out/model.safetensors").exists()


def test_texts_that_the_tokenizer_cuts_otherwise_are_counted(tmp_path):
    config = tiny.talk_config(
        warm_start__updates=0,
        env=env_section("Nim-v1"),
        advantage=section(advantages.rae_by_turn),
    )
    (note,) = exported.export(run_of(config), tmp_path / "out")
    assert "of 256 observations of Nim-v1 have other tokens" in note


def test_a_policy_over_arrays_is_written_as_plain_tensors(tmp_path):
    run = run_of(lake())
    assert exported.export(run, tmp_path / "out") == []
    tensors = safetensors.numpy.load_file(tmp_path / "out/model.safetensors")
    about = json.loads((tmp_path / "out/policy.json").read_text())
    assert about["policy"]["name"] == "agentrl.policies.mlp" and about["env"]["size"] == 3
    assert {n: list(x.shape) for n, x in tensors.items()} == {
        n: x["shape"] for n, x in about["tensors"].items()
    }
    # The paths in the names rebuild the tree of parameters.
    tree = {}
    for name, value in tensors.items():
        *parts, last = name.split("/")
        node = tree
        for part in parts:
            node = node.setdefault(part, {})
        node[last] = value
    jax.tree.map(
        np.testing.assert_array_equal, tree, jax.tree.map(lambda x: x[0], run.state.params)
    )


def test_a_second_export_asks_before_it_replaces(tmp_path):
    run = run_of(lake())
    exported.export(run, tmp_path / "out")
    with pytest.raises(FileExistsError, match="overwrite"):
        exported.export(run, tmp_path / "out")
    exported.export(run, tmp_path / "out", overwrite=True)
    with pytest.raises(ValueError, match="--seed=4: the run has seeds 0 to 0"):
        exported.export(run, tmp_path / "elsewhere", seed=4)
    with pytest.raises(ValueError, match="--role=1: a policy over arrays"):
        exported.export(run, tmp_path / "elsewhere", role=1)
    assert not (tmp_path / "elsewhere").exists()


def test_a_fragment_that_spells_a_control_token_is_refused():
    codec = talk(section(contexts.whole)).experiment.policy.codec
    table = np.array(codec.token_bytes)
    table = np.pad(table, ((0, 0), (0, max(0, 8 - table.shape[1]))))
    table[5, :7], lengths = list(b"<|end|>"), np.array(codec.token_lengths)
    lengths[5] = 7
    with pytest.raises(ValueError, match="'<|end|>' spells a control token"):
        tokenizer_files.tokenizer_of(
            dataclasses.replace(codec, token_bytes=table, token_lengths=lengths)
        )


def test_a_new_model_ends_its_turns_and_has_a_template(tmp_path):
    view = envs.make("FrozenLake-v1")[0].view
    new_model.write(tmp_path / "new", [view], vocab_size=400, width=16, heads=2, kv_heads=1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    generation = json.loads((tmp_path / "new/generation_config.json").read_text())
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.pad_token == "<|endoftext|>"
    assert generation["eos_token_id"] == tokenizer.eos_token_id
    assert generation["pad_token_id"] == tokenizer.pad_token_id
    pytest.importorskip("jinja2")
    codec = policies.pretrained(view, directory=str(tmp_path / "new")).codec
    said = [{"role": "system", "content": "R"}, {"role": "user", "content": "U"}]
    shown = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    own = tokenizer.decode([*codec.opening]).split("<|im_end|>")[0]
    assert own.startswith("<|im_start|>system\n")
    assert shown == (
        "<|im_start|>system\nR<|im_end|>\n"
        + tokenizer.decode([*codec.before])[1:]
        + "U"
        + tokenizer.decode([*codec.after])
    )
