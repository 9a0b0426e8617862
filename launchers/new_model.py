r"""Writes a small random model, with a tokenizer trained on environments' text, into a directory.

    python -m launchers.new_model --envs=Household-v1 --out=models/small
    python -m launchers.train --config=configs/published/small_qwen.py:sft,models/small \
        --workdir=runs/small

A Qwen 2 in Hugging Face's files, to try every step of working with published models from scratch:
the same policy (`agentrl.policies.published`), codec, adapters and export.
"""

from absl import flags

from launchers import cli

_ENVS = flags.DEFINE_list(
    "envs", ["Household-v1"], "Environments whose text the tokenizer is trained on."
)
_OUT = flags.DEFINE_string("out", None, "Directory to write, new or empty.")
_VOCAB = flags.DEFINE_integer(
    "vocab_size",
    600,
    "Number of tokens; 259 are bytes and control tokens.",
    lower_bound=259,
    upper_bound=1_000_000,
)
_WIDTH = flags.DEFINE_integer("width", 64, "Width of the model.", lower_bound=2, upper_bound=65536)
_LAYERS = flags.DEFINE_integer("layers", 2, "Number of layers.", lower_bound=1, upper_bound=1000)
_HEADS = flags.DEFINE_integer(
    "heads", 2, "Query and key-value heads of each layer.", lower_bound=1, upper_bound=1024
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Seed of the weights.", lower_bound=0, upper_bound=cli.LARGEST_SEED
)


def main(argv: list[str]) -> None:
    """Trains the tokenizer, initialises the weights, writes both."""
    if len(argv) > 1 or _OUT.value is None:
        cli.fail("give --out=, the directory to write")
    cli.output("out", _OUT.value, folder=True)
    names = cli.named("envs", _ENVS.value, "Household-v1")
    import envs
    from agentrl.policies import new_model

    try:
        made = [envs.make(name)[0] for name in names]
        config = new_model.write(
            _OUT.value,
            [env.view for env in made],
            vocab_size=_VOCAB.value,
            width=_WIDTH.value,
            layers=_LAYERS.value,
            heads=_HEADS.value,
            kv_heads=_HEADS.value,
            hidden=2 * _WIDTH.value,
            seed=_SEED.value,
        )
    except (ValueError, OSError) as error:
        cli.fail(error)
    print(f"{_OUT.value}: {config.layers} layers of {config.width}, {config.vocab_size} tokens")


if __name__ == "__main__":
    cli.run(main)
