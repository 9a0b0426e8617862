"""Run directories written by hand, small enough to check by eye."""

import json

import numpy as np

CONFIG = {
    "env": {"name": "FrozenLake-v1", "size": 4},
    "advantage": {"name": "agentrl.advantages.gigpo", "gamma": 0.95},
    "objective": {"policy": {"name": "agentrl.losses.clipped_surrogate", "weight": 1.0}},
    "rollout": {"name": "episodes"},
    "seed": 0,
    "num_seeds": 2,
    "updates": 40,
}


def record(seed, update, **metrics):
    """One line: 10 turns an update in seed 0, 11 in seed 1 and so on; a second an update."""
    steps = (10 + seed) * update
    return {"seed": seed, "update": update, "env_steps": steps, "wall_time": update * 1.0} | metrics


def learning(seeds=(0, 1), updates=40, best=0.8, every=1):
    """Success grows to `best` (plus a tenth of the seed) in a straight line; anchors shrink."""
    out = []
    for update in range(every, updates + 1, every):
        done = update / updates
        for seed in seeds:
            alone = 0.5 * done
            out.append(
                record(
                    seed,
                    update,
                    success_rate=(best + 0.1 * seed) * done,
                    episode_return=2 * (best + 0.1 * seed) * done,
                    entropy=1.4 - done,
                    **{"anchor_size/1": alone, "anchor_size/2_3": 0.2},
                    **{"anchor_size/16_up": 0.8 - alone},
                )
            )
    return out


def evaluation(update, seeds=(0, 1), expert=True):
    """Four episodes a seed; the seeds' returns on each task are 0 0 1 1 and 0 1 1 1 and so on."""
    per_seed = {}
    for seed in seeds:
        success = [False, seed % 2 == 1, True, True]
        per_seed[str(seed)] = {
            "episode_return": [float(s) for s in success],
            "length": [4, 5, 6, 7],
            "success": success,
        }
    best = {"episode_return": [1.0] * 4, "length": [3] * 4, "success": [True] * 4}
    return {
        "update": update,
        "seeds": list(seeds),
        "episodes": 4,
        "greedy": False,
        "per_seed": per_seed,
        "expert": best if expert else None,
    }


def write(path, *, config=None, lines=None, evaluations=(), elsewhere=(), provenance=None):
    """Writes a run directory; config is changes of CONFIG's sections.

    elsewhere: (name of a folder of eval, evaluation).
    """
    (path / "eval").mkdir(parents=True)
    merged = json.loads(json.dumps(CONFIG))
    for key, value in (config or {}).items():
        merged[key] = merged[key] | value if isinstance(value, dict) else value
    (path / "config.json").write_text(json.dumps(merged))
    text = [json.dumps(line) + "\n" for line in (learning() if lines is None else lines)]
    (path / "metrics.jsonl").write_text("".join(text))
    given = {"command": "python -m launchers.train --config=a.py", "git": {"commit": "abc"}}
    (path / "provenance.json").write_text(json.dumps(given if provenance is None else provenance))
    for folder, content in [*(("", content) for content in evaluations), *elsewhere]:
        (path / "eval" / folder).mkdir(exist_ok=True)
        name = f"update_{content['update']:06d}.json"
        (path / "eval" / folder / name).write_text(json.dumps(content))
    return path


def final_by_hand(best, updates=40):
    """Means over the last tenth of the updates of a straight line that ends at `best`."""
    return best * np.mean([u / updates for u in range(1, updates + 1) if u > 0.9 * updates])
