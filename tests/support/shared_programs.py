"""Runs of equal configs share their compiled programs: most tests train one config twice."""

import json

from agentrl.learner.optimizer import AUTO
from agentrl.run import loop

# Keys that no program depends on.
OUTSIDE = ("init_from", "env_steps", "max_rejected_updates", "checkpoint", "stages")


def share(patch):
    """From here on `loop.run` compiles a config once, with a `pytest.MonkeyPatch`.

    Not where environments are in Python: their workers belong to one run.
    """
    compile_programs, prepare = loop.compile_programs, loop.prepare
    programs, ready = {}, {}

    def compile_once(experiment, config, device_mesh):
        if experiment.env.in_python:
            return compile_programs(experiment, config, device_mesh)
        key = _key(config)
        if key not in programs:
            programs[key] = compile_programs(experiment, config, device_mesh)
        return programs[key]

    def prepare_once(config, experiment, made, device_mesh):
        key = _key(config)
        # A size that is searched for becomes a number in the config.
        sized = config.learner.microbatch == AUTO
        if sized or experiment.env.in_python or programs.get(key) is not made:
            return prepare(config, experiment, made, device_mesh)
        if key not in ready:
            ready[key] = prepare(config, experiment, made, device_mesh)
        return ready[key]._replace(config=config)

    patch.setattr(loop, "compile_programs", compile_once)
    patch.setattr(loop, "prepare", prepare_once)


def _key(config):
    inside = {key: value for key, value in config.to_dict().items() if key not in OUTSIDE}
    return json.dumps(inside, sort_keys=True, default=repr)
