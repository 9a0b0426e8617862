"""The manual of a support desk: the next step given the known facts of a phone.

Source: tau2-bench's telecom domain (read), for the faults of `envs.telecom.rules`.
"""

import jax
import jax.numpy as jnp

from envs.telecom.rules import DATA, FACT, FACTS, MMS, NUMBER, SERVICE


def advise(
    known: jax.Array, kind: jax.Array, abroad: jax.Array, time: jax.Array, transfer: int, close: int
) -> jax.Array:
    """The desk's next action by its manual, from the facts it knows, u8[facts]: i32[].

    The index of a tool, of transferring or of closing. Unknown facts are looked up; if all seems
    well but the goal is not reached, all checks are repeated, in the order given by `time`.
    """

    def is_(fact, value):
        return known[FACT[fact]] == 1 + FACTS[fact].index(value)

    def unknown(fact):
        return known[FACT[fact]] == 0

    data, mms, service = kind == DATA, kind == MMS, kind == SERVICE
    out = is_("network", "none")
    suspended = out & is_("line", "suspended")
    roams = abroad & ~service
    online = data | mms
    recheck = (
        *("check network", "check saver", "check vpn", "check mode", "check wifi calling"),
        *("check permissions", "check apn"),
    )
    again = jnp.array([NUMBER[name] for name in recheck])[(time // 2) % len(recheck)]
    rules = (
        (unknown("network") | unknown("airplane") | unknown("sim"), "check network"),
        (is_("airplane", "on"), "airplane"),
        (is_("sim", "missing"), "reseat sim"),
        (is_("sim", "locked"), transfer),
        (out & unknown("apn"), "check apn"),
        (is_("apn reset", "at reboot"), "reboot"),
        (out & is_("apn", "broken"), "reset apn"),
        (out & unknown("line"), "look line"),
        (suspended & is_("contract", "ended"), transfer),
        (suspended & unknown("bill"), "look bills"),
        (suspended & is_("bill", "overdue"), "send request"),
        (suspended & is_("bill", "awaiting") & ~is_("request", "no"), "pay"),
        (suspended & is_("bill", "awaiting"), "look bills"),
        (suspended, "resume"),
        (out, "reboot"),
        (service, close),
        (roams & unknown("roaming"), "check network"),
        (roams & is_("roaming", "off"), "roaming"),
        (roams & unknown("line roaming"), "look line"),
        (roams & is_("line roaming", "off"), "enable roaming"),
        (unknown("data"), "check network"),
        (is_("data", "off"), "data"),
        (online & unknown("usage"), "look usage"),
        (is_("usage", "exceeded") & is_("refuelled", "yes"), transfer),
        (is_("usage", "exceeded"), "refuel"),
        (unknown("mode"), "check mode"),
        (~is_("mode", "5g"), "mode 5g"),
        (data & unknown("saver"), "check saver"),
        (data & is_("saver", "on"), "saver"),
        (data & unknown("vpn"), "check vpn"),
        (data & is_("vpn", "poor"), "vpn off"),
        (mms & unknown("wifi calling"), "check wifi calling"),
        (mms & is_("wifi calling", "on"), "wifi calling"),
        (mms & (unknown("sms") | unknown("storage")), "check permissions"),
        (mms & is_("sms", "no"), "grant sms"),
        (mms & is_("storage", "no"), "grant storage"),
        (mms & unknown("mms url"), "check apn"),
        (mms & is_("mms url", "missing"), "reset apn"),
        (data & is_("speed", "excellent") | mms & is_("mms", "yes"), close),
        (data & (unknown("speed") | (time % 2 == 0)), "check speed"),
        (mms & (unknown("mms") | (time % 2 == 0)), "check mms"),
    )
    conditions = [condition for condition, _ in rules]
    actions = [NUMBER.get(action, action) for _, action in rules]
    return jnp.select(conditions, [jnp.int32(a) for a in actions], again).astype(jnp.int32)
