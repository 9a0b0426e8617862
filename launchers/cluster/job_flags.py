"""Flags that say what each job of a command is given: the fields of `Resources`."""

import re

from absl import flags

from launchers.cluster.launch import Resources

_DEFAULTS = Resources()
_FIELDS = re.findall(r"^    ([a-z_, ]+): (.+(?:\n {6}.+)*)", Resources.__doc__, flags=re.MULTILINE)
_MEANING = {name: " ".join(text.split()) for names, text in _FIELDS for name in names.split(", ")}
_INTEGERS, _FLOATS = ("nodes", "devices", "cpus"), ("hours", "memory_gib")
_TEXTS = ("device", "queue", "account", "qos", "constraint", "image", "volume")
NAMES = (*_INTEGERS, *_FLOATS, *_TEXTS, "environment")


def define() -> None:
    """Defines them, for a command that starts jobs."""
    for name in _INTEGERS:
        flags.DEFINE_integer(name, getattr(_DEFAULTS, name), _MEANING[name])
    for name in _FLOATS:
        flags.DEFINE_float(name, getattr(_DEFAULTS, name), _MEANING[name])
    for name in _TEXTS:
        flags.DEFINE_string(name, getattr(_DEFAULTS, name), _MEANING[name])
    flags.DEFINE_multi_string("environment", [], "NAME=VALUE, a variable of the jobs.")


def resources() -> Resources:
    """What the command line gives each job."""
    given = {name: flags.FLAGS[name].value for name in NAMES[:-1]}
    pairs = [text.partition("=") for text in flags.FLAGS["environment"].value]
    return Resources(**given, environment={name: value for name, _, value in pairs})
