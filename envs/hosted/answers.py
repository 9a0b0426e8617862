"""What an answer of a worker has to be: its environment shares the process, and may write it."""

import math

from envs.hosted.worker import shape_of


def answers(op, message, about):
    """Whether a message has the form of a `Server`'s answer. about: what it answered to "make"."""
    if not isinstance(message, dict):
        return False
    if op == "make":
        seats = message.get("seats")
        return isinstance(seats, int) and seats > 0 and isinstance(message.get("has_success"), bool)
    seats, together = about["seats"], about.get("simultaneous", False)
    shape = about.get("observation_shape")

    def is_observation(given):
        return isinstance(given, str) if shape is None else shape_of(given) == tuple(shape)

    def are_numbers(given, kinds=(int, float)):
        return all(isinstance(x, kinds) and math.isfinite(x) for x in given)

    def are(kinds, given):
        return isinstance(given, list) and len(given) == seats and are_numbers(given, kinds)

    def are_metrics(given):
        return (
            isinstance(given, dict)
            and are_numbers(given.values())
            and set(about.get("metrics", ())) >= set(given)
        )

    def is_seat(given, least=0):
        return type(given) is int and least <= given < seats

    shown = message.get("observation")
    if together:
        observed = (
            isinstance(shown, list) and len(shown) == seats and all(map(is_observation, shown))
        )
        observed = observed and are(bool, message.get("acting"))
    else:
        observed = is_observation(shown) and is_seat(message.get("seat"))
    if op == "reset":
        return observed and "reward" not in message
    valid = message.get("valid")
    return (
        observed
        and are((int, float), message.get("reward"))
        and all(isinstance(message.get(name), bool) for name in ("terminated", "truncated"))
        and (are(bool, valid) if together else isinstance(valid, bool))
        and are(bool, message.get("success"))
        and is_seat(message.get("offender"), -1)
        and are_metrics(message.get("metrics", {}))
    )
