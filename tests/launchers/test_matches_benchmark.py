"""Suite `matches`: the loop in Python plays as many turns, and its model reads as many tokens."""

import pytest

from launchers.benchmarks import conversation, matches, timing

TINY = timing.Plan(rounds=1, sample_seconds=0.0)


class Counted:
    """An engine that keeps the replies that it got."""

    def __init__(self, seed):
        self.seed, self.replies = seed, []

    def look(self):
        return "Q" * (1 + self.seed)

    def play(self, reply):
        self.replies.append(reply)


def test_every_turn_of_every_match_is_played():
    options = matches.GAMES[1].options
    ours = matches.collecting("KuhnPoker-v1", 2, conversation.SMALL, **options)
    assert ours.turns == 3 and ours.ready.work == 2 * 3
    made = []
    peer = matches.lockstep(lambda seed: made.append(Counted(seed)) or made[-1], ours, 2)
    peer.call()
    assert [len(game.replies) for game in made] == [3, 3] and peer.work == ours.ready.work
    assert peer.facts() == ours.ready.facts()
    rows = matches._rows("KuhnPoker-v1", [("agentrl", ours.ready), ("Python", peer)], TINY)
    assert rows[0]["ours_to_it"] == 1.0
    assert rows[1]["ours_to_it"] == pytest.approx(rows[0]["rate"] / rows[1]["rate"])
    assert "Matches in words" in matches.report({"rows": rows, "calls": rows})


@pytest.mark.parametrize(("module", "index"), [("textarena", 0), ("pyspiel", 1)])
def test_engines_begin_anew_when_a_match_ends(module, index):
    pytest.importorskip(module)
    for match in matches.GAMES:
        game = list(match.engines.values())[index](0)
        for _ in range(40):
            assert 0 < len(game.look()) <= 13
            game.play("no move")
