"""The support desk in words: the call, requests and actions, and the known facts."""

import jax.numpy as jnp
import numpy as np

from envs.telecom import rules
from envs.telecom.env import DESK, Telecom
from envs.text import Lexicon, View, template

CALLS = ("no service", "mobile data fail or are slow", "pictures cannot be sent")
RULES = (
    "A customer calls a phone company; the desk and the customer mend the phone together. The "
    "customer can: {user}, or nothing. The desk asks for these by the same words, and itself can: "
    "{desk}, transfer (where it cannot be solved: locked card, ended contract, data used up after "
    "refuelling), close (when all is well). airplane, data, roaming, saver and wifi calling are "
    "switches. A suspended line needs its bill paid, then resume, then a reboot; reset apn works "
    "at the next reboot. Abroad, data need roaming on the phone and on the line."
)


def compact(env: Telecom) -> View:
    """`desk: no service`, the last request and the user's action, then the known facts.

    For example `asked check network, did check network`, `airplane on`, `sim ok`, one line each.
    """
    lexicon = Lexicon()
    roles = lexicon.table(("desk: ", "user: "))
    calls = lexicon.table(CALLS)
    abroad = lexicon(", abroad")
    asked, did = lexicon("\nasked "), lexicon(", did ")
    actions = lexicon.table(env.action_names)
    names = lexicon.table(f"\n{name}" for name in rules.FACTS)
    first, values = [], []
    for texts in rules.FACTS.values():
        first.append(len(values))
        values += [lexicon(f" {text}") for text in texts]
    first, values = np.array(first, np.int32), np.array(values, np.int32)

    def describe(state, params, agent):
        codes = env.observe_as(state, agent, params).astype(jnp.int32)
        kind, far, request, done = codes[:4]
        facts = codes[4:]
        known = facts > 0
        said = [
            jnp.asarray(roles)[jnp.int32(agent != DESK)],
            jnp.asarray(calls)[kind],
            jnp.where(far > 0, abroad, 0),
            jnp.where(request > 0, asked, 0),
            jnp.where(request > 0, jnp.asarray(actions)[jnp.maximum(request - 1, 0)], 0),
            jnp.where(done > 0, did, 0),
            jnp.where(done > 0, jnp.asarray(actions)[jnp.maximum(done - 1, 0)], 0),
        ]
        shown = jnp.stack([jnp.asarray(names), jnp.asarray(values)[first + facts - 1]], axis=1)
        return jnp.append(jnp.stack(said), jnp.where(known[:, None], shown, 0).reshape(-1))

    longest = max(map(len, env.action_names))
    size = len("desk: , abroad\nasked , did ") + max(map(len, CALLS)) + 2 * longest
    size += sum(len(name) + 2 + max(map(len, texts)) for name, texts in rules.FACTS.items())
    tools = {
        "user": ", ".join(rules.TOOLS[: rules.USER_TOOLS]),
        "desk": ", ".join(rules.OFFICE),
    }
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=7 + 2 * len(rules.FACTS),
        max_bytes=size,
        max_command_bytes=longest,
        rules=RULES.format(**tools),
    )


WORDINGS = {"compact": compact}
