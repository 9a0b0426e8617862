r"""SmolLM2-135M-Instruct from its published weights to an agent: SFT, then GiGPO and GRPO.

Three runs, each in its own directory; GiGPO and GRPO both start from the SFT, which is stopped
early, so that there is something left to learn. WORLD,DIRECTORY,SIZE as in smollm2.py.

    python -m launchers.train --config=configs/published/smollm2_stages.py:ezpoints,models/smollm2 \
        --workdir=runs/smollm2

EZPoints on two CPU cores: 7 minutes each for GiGPO and GRPO, 6 GiB; success as in
configs/published/smollm2.py, whose runs were started one by one.
"""

import ml_collections

from configs.published import smollm2

# Updates of the supervised stage and of the others.
UPDATES = {"ezpoints": (15, 20), "room": (20, 40)}
VARIANTS = {f"{world},DIRECTORY,SIZE": "as in smollm2.py" for world in UPDATES}


def get_config(variant: str = "ezpoints,") -> ml_collections.ConfigDict:
    world, _, rest = variant.partition(",")
    if world not in UPDATES:
        raise ValueError(
            f"variant {variant!r}: expected WORLD,DIRECTORY,SIZE with a world of "
            f"{', '.join(UPDATES)}"
        )
    supervised, further = UPDATES[world]
    stages = {m: smollm2.get_config(f"{m},{world},{rest}") for m in ("sft", "gigpo", "grpo")}
    for name, stage in stages.items():
        stage.updates = supervised if name == "sft" else further
        stage.evaluation.update(every=stage.updates, episodes=512)
        if name != "sft":
            stage.init_from = "stage:sft"
    stages["sft"].warm_start.updates = supervised
    return ml_collections.ConfigDict({"stages": stages})
