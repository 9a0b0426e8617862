"""Recorded episodes of the programs that environments follow, played again.

Each recording says how its episodes begin here, what an action is called, and what was told. One
test plays all of them, in the faithful wording: by the text of each action where it has one.
"""

import collections
import functools
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
import recorded

from envs.coin import rules as coin
from envs.coin.env import NOWHERE, CoinState, room_name
from envs.liars_dice import rules as liars_dice
from envs.number_line.env import NumberLineState
from envs.pig_dice import rules as pig_dice


class Now(NamedTuple):
    """What a step told."""

    state: Any
    observation: Any = None
    outcome: dict = {}


class Player:
    """An environment in its faithful wording, and what it tells of its states."""

    def __init__(self, name, **options):
        options["wording"] = "faithful"
        self.env, self.params, self.reset, self.take = playing.functions(name, **options)
        self.read, self.tell = playing.reader(name, **options), playing.teller(name, **options)

    def ask(self, method, state):
        return playing.method(self.env, method)(state, self.params)

    def step(self, state, action):
        observation, state, reward, terminated, info = self.take(state, action)
        truncated = bool(self.env.is_truncated(state, self.params))
        outcome = {
            "reward": float(reward),
            "terminated": bool(terminated),
            "truncated": truncated,
            "over": bool(terminated) or truncated,
            "success": bool(info["success"]),
            "valid": bool(info["valid"]),
        }
        return Now(state, observation, outcome)


player = functools.cache(Player)


class Recording:
    """Episodes of `tests/data/FILE.json.gz` as `name` plays them."""

    def __init__(self, file, name):
        self.file, self.name = file, name
        self.episodes = [e for e in recorded.episodes(file) if self.has(e)]

    def has(self, episode):
        return True

    def options(self, episode):
        return {}

    def start(self, play, episode):
        """The first state."""

    def action(self, play, told, state):
        """The text of an action, None if it has none, and its numbers: all that are known."""

    def outcome(self, told):
        """Of `Player.step`'s outcome, and of the sum of rewards, what was recorded."""

    def shown(self, play, now, told):
        """(ours, recorded) of a state; what was told at first is without the 0 of its name."""


class FrozenLake(Recording):
    def options(self, episode):
        return {"size": episode["size"], "slippery": False, "max_steps_in_episode": 1000}

    def start(self, play, episode):
        return recorded.lake(episode)

    def action(self, play, told, state):
        return told["name"], told["a"]

    def outcome(self, told):
        return {name: told[name] for name in ("reward", "terminated")}

    def shown(self, play, now, told):
        text = told["text"].replace("√", "*")
        yield play.tell(now.state), text
        yield play.env.render(now.state, play.params), text
        yield int(now.state.position), told["obs"]


class Sokoban(Recording):
    def options(self, episode):
        size, boxes = tuple(episode["dim"]), episode["boxes"]
        return {"size": size, "boxes": boxes, "actions": "gym", "max_steps_in_episode": 1000}

    def start(self, play, episode):
        return play.env.from_codes(recorded.room(episode))

    def action(self, play, told, state):
        return told["info"]["action.name"], told["a"]

    def outcome(self, told):
        solved = told["done"] and told["info"]["all_boxes_on_target"]
        reward = pytest.approx(told["reward"], abs=1e-6)
        return {"reward": reward, "terminated": solved, "success": solved}

    def shown(self, play, now, told):
        text = told["text"].replace("√", "*")
        yield play.tell(now.state), text
        yield play.env.render(now.state, play.params), text
        if now.outcome:
            yield int(np.sum(np.asarray(now.observation) == 3)), told["on_target"]


class Maze(Recording):
    layouts = {"double_t_maze": "double_t", "umaze": "umaze"}
    sights = {
        "describe_observation_give_position": "position",
        "describe_observation": "goal",
        "describe_observation_only_walls": "walls",
    }
    commands = [f"move {way}\n" for way in ("up", "down", "left", "right")]

    def options(self, episode):
        layout, sight = self.layouts[episode["maze"]], self.sights[episode["describe"]]
        # LMRL-Gym answers the step after the hundredth with its failure.
        return {"layout": layout, "sight": sight, "max_steps_in_episode": 101}

    def start(self, play, episode):
        row, col = episode["start"]
        return play.reset(playing.KEY).replace(position=jnp.uint8(row * play.env.shape[1] + col))

    def action(self, play, told, state):
        known = told["action"] in self.commands
        return told["action"], self.commands.index(told["action"]) if known else -1

    def outcome(self, told):
        valid = told["action"] in self.commands
        ends = dict.fromkeys(("terminated", "over", "success"), told["done"])
        return {"reward": told["reward"], "valid": valid, **ends}

    def shown(self, play, now, told):
        cols = play.env.shape[1]
        yield play.tell(now.state), told["obs"]
        if now.outcome:
            yield [*divmod(int(now.state.position), cols)], told["pos"]
            seen = now.observation
        else:
            yield [*divmod(int(now.state.goal), cols)], told["goal"]
            seen = play.ask("observe", now.state)
        if not told.get("done"):
            yield seen.tolist(), self.codes(told["obs"])

    def codes(self, text):
        """Our observation of a recorded text: walls, goal and position as far as it tells them."""
        walls = [f"{side}" in text for side in ("above you", "below you", "to your left")]
        walls.append("to your right" in text)
        places = re.findall(r"position ([\d ]+), ([\d ]+)\.", text)
        return [*map(int, walls), *(int(p.replace(" ", "")) for place in places for p in place)]


class Coin(Recording):
    """TextWorld's levels: what may be done, and the shortest way."""

    ways = ("north", "south", "east", "west")
    information = {"look", "inventory", "examine coin", "drop coin"}
    commands = [*(f"go {way}" for way in ways), "take coin"]

    def options(self, episode):
        return coin.level_options(episode["level"])

    def start(self, play, episode):
        state, self.rooms = self.map(episode, play.env.rooms)
        return state

    def map(self, episode, rooms):
        """(state, names) of a recorded game: chain, then dead ends by name, then rooms that nothing
        leads to, as many as one compiled environment needs for all games."""
        facts, behind = " ".join(episode["facts0"]), collections.defaultdict(dict)
        for fact in episode["facts0"]:
            if match := re.fullmatch(r"(\w+)_of\((.+): r, (.+): r\)", fact):
                way, there, here = match.groups()
                behind[here][self.ways.index(way)] = there
        chain = [re.search(r"at\(P, (.+?): r\)", facts).group(1)]
        for command in episode["walkthrough"][:-1]:
            chain.append(behind[chain[-1]][self.ways.index(command.split()[1])])
        names = chain + sorted(set(behind) - set(chain))
        exits = np.full((rooms, 4), -1, np.int8)
        for here, ways in behind.items():
            for way, there in ways.items():
                exits[names.index(here), way] = names.index(there)
        state = CoinState(
            time=jnp.int32(0),
            exits=jnp.asarray(exits),
            names=jnp.arange(rooms, dtype=jnp.uint8),
            coin=jnp.int8(names.index(re.search(r"at\(coin: o, (.+?): r\)", facts).group(1))),
            room=jnp.int8(0),
            last_move=jnp.uint8(NOWHERE),
        )
        return state, names

    def action(self, play, told, state):
        return None, self.commands.index(told["action"]), int(play.ask("expert", state))

    def outcome(self, told):
        return {"total": told["score"], "terminated": told["done"], "success": told["done"]}

    def shown(self, play, now, told):
        yield self.rooms[int(now.state.room)], told["room"]
        yield len(self.rooms), play.env.rooms
        if not told.get("done"):
            legal = np.flatnonzero(play.ask("legal", now.state))
            yield {self.commands[a] for a in legal}, set(told["admissible"]) - self.information


class CoinInWords(Coin):
    def has(self, episode):
        return episode["kind"] == "coin_collector"

    def options(self, episode):
        # TextWorld does not say where one came from. Its levels have 30 rooms at most here.
        return {"show_last_move": False, "quest_length": 15, "distractors": 1}

    def action(self, play, told, state):
        return (told["action"],)

    def outcome(self, told):
        return {"total": told["score"], "terminated": told["done"]}

    def shown(self, play, now, told):
        yield play.tell(now.state).strip(), self.reworded(told["feedback"])

    def reworded(self, text):
        """A recorded answer in our fixed wording and with our names of rooms.

        Off go the banner, the status line with what stands after the prompt, the score and the end
        of the game; the sentence on the room and those on its exits are reworded.
        """
        text = re.sub(r"\n>\s*.*", "", text, flags=re.DOTALL)
        text = re.sub(r"\n\n\n\nYour score has just gone up.*", "", text, flags=re.DOTALL)
        if "-= " in text:
            text = text[text.index("-= ") :]
        text = re.sub(
            r"There is an un(blocked|guarded) exit to the (\w+)\."
            r"|There is an exit to the (\w+)\. Don't worry, it is un(blocked|guarded)\."
            r"|You need an un(blocked|guarded) exit\? You should try going (\w+)\."
            r"|You don't like doors\? Why not try going (\w+), that entranceway is un\w+\.",
            lambda m: f"There is an exit to the {next(g for g in m.groups() if g in self.ways)}.",
            text,
        )
        if match := re.match(r"-= (.+) =-\n.*?(?=\n\n\n\n)", text, flags=re.DOTALL):
            name = room_name(self.rooms.index(match[1].lower()))
            article = "an" if name[0] in "aeiou" else "a"
            text = f"-= {name.title()} =-\nYou are in {article} {name}.{text[match.end() :]}"
        return text.strip()


class Cards(Recording):
    """A game of gym-cards; -1 was recorded for a reply that could not be read."""

    def has(self, episode):
        return f"{episode['env']}-v1" == self.name

    def action(self, play, told, state):
        return self.commands[told["a"]] if told["a"] >= 0 else "hm", told["a"]

    def outcome(self, told):
        outcome = {name: told[name] for name in ("reward", "terminated", "truncated")}
        return outcome | {"success": told["info"]["won"]}

    def shown(self, play, now, told):
        compact, faithful = self.texts(told["info"])
        yield play.env.render(now.state, play.params), compact
        yield play.tell(now.state), faithful


class NumberLine(Cards):
    commands = "-+"

    def start(self, play, episode):
        now, target = (jnp.int32(episode["info0"][name]) for name in ("Current", "Target"))
        return NumberLineState(jnp.int32(0), now, target)

    def texts(self, info):
        now, target = info["Current"], info["Target"]
        compact = f"target {target} | current {now}"
        return compact, f"Target number: {target}. Current number: {now}"


class Points(Cards):
    def __init__(self, file, name, symbols):
        super().__init__(file, name)
        self.commands = [*map(str, range(1, 11)), *symbols]

    def start(self, play, episode):
        cards = jnp.array(episode["info0"]["Numbers"], jnp.uint8)
        return play.reset(playing.KEY).replace(cards=cards)

    def texts(self, info):
        cards, formula = info["Numbers"], [*map(str, info["Formula"])]
        compact = " ".join(["cards", *map(str, cards), "| formula", *formula])
        return compact, f"Numbers: {cards}. Current formula: {''.join(formula)}."


RECORDINGS = [
    FrozenLake("frozenlake", "FrozenLake-v1"),
    Sokoban("sokoban", "Sokoban-v1"),
    Maze("maze_lmrl", "Maze-v1"),
    Coin("coin_textworld", "Coin-v1"),
    CoinInWords("textworld", "Coin-v1"),
    NumberLine("gym_cards", "NumberLine-v1"),
    Points("gym_cards", "EZPoints-v1", "+*="),
    Points("gym_cards", "Points24-v1", "+-*/()="),
]
EPISODES = [
    pytest.param(recording, number, id=f"{recording.name}-{recording.file}-{number}")
    for recording in RECORDINGS
    for number in range(len(recording.episodes))
]


def agree(pairs):
    pairs = list(pairs)
    assert [ours for ours, _ in pairs] == [theirs for _, theirs in pairs]


@pytest.mark.parametrize(("recording", "number"), EPISODES)
def test_recorded_episodes_are_played_the_same(recording, number):
    """What is seen and told of every state, how actions are read, rewards and ends."""
    episode = recording.episodes[number]
    play = player(recording.name, **recording.options(episode))
    now, total = Now(recording.start(play, episode)), 0.0
    first = {name.removesuffix("0"): told for name, told in episode.items()}
    agree(recording.shown(play, now, first))
    for told in episode["steps"]:
        text, *numbers = recording.action(play, told, now.state)
        if text is not None:
            numbers.append(play.read(text, now.state))
        assert len(set(numbers)) == 1
        now = play.step(now.state, numbers[0])
        total += now.outcome["reward"]
        expected = recording.outcome(told)
        assert {name: (now.outcome | {"total": total})[name] for name in expected} == expected
        agree(recording.shown(play, now, told))


class Game:
    """Games of two of TextArena 0.7.4, read by its rules."""

    def __init__(self, env_id, name, **options):
        self.name, self.options = name, options
        self.games, self.rule = recorded.games("textarena", env_id), recorded.RULES[name]

    def start(self, play, game):
        """The first state."""
        return play.reset(playing.KEY)

    def key(self, state, told):
        """A key with which the step throws what was thrown."""
        return playing.KEY

    def dealt(self, state, position):
        """The state with the dice of a recorded one."""
        return state

    def position(self, play, state):
        """What a recorded state tells, as ours."""

    def boards(self, told):
        """Texts that a player was shown."""
        return [text for _, kind, text in told["new_messages"] if kind == "GAME_BOARD"]

    def shown(self, play, before, after, told):
        """(ours, recorded) of a step."""
        position = self.position(play, after)
        yield position, {name: told["state"][name] for name in position}
        for board in self.boards(told)[-1:]:
            yield play.tell(before, told["player"]), board


class Board(Game):
    def position(self, play, state):
        return {"board": play.env.render(state, play.params).split("\n")}


class TicTacToe(Board):
    def boards(self, told):
        return super().boards(told) if told["error_count"] == 0 else []


class Nim(Game):
    def position(self, play, state):
        return {"piles": state.game.piles.tolist()}


class PigDice(Game):
    @functools.cached_property
    def keys(self):
        """A key with which a step throws each face."""
        keys = jax.random.split(playing.KEY, 100)
        thrown = np.asarray(jax.vmap(pig_dice.throw)(keys))
        return {face: keys[int(np.argmax(thrown == face))] for face in range(1, 7)}

    def key(self, state, told):
        # A 1 is not listed: the turn passes, or ends the game with the turn's total as it was.
        now = told["state"]
        added = now["turn_total"] > int(state.game.total)
        return self.keys[int(now["turn_rolls"][-1].strip("'")) if added else 1]

    def position(self, play, state):
        scores = state.game.scores.tolist()
        return {"scores": scores, "turn_total": int(state.game.total)}

    def boards(self, told):
        # The list of rolls is left out.
        return [re.sub(r"\nYour roll history.*", "", board) for board in super().boards(told)]

    def shown(self, play, before, after, told):
        yield from super().shown(play, before, after, told)
        if not told["done"]:
            yield int(after.game.actions), told["turn"]


class LiarsDice(Game):
    def start(self, play, game):
        return self.dealt(super().start(play, game), game["initial_state"])

    def dealt(self, state, position):
        count = state.game.dice.shape[1]
        hands = [[*hand, *[0] * (count - len(hand))] for hand in position["dice"]]
        return state.replace(game=state.game.replace(dice=np.array(hands, np.uint8)))

    def position(self, play, state):
        if int(state.offender) >= 0:
            return {}
        bid = {"quantity": int(state.game.quantity), "face_value": int(state.game.face)}
        return {"remaining": liars_dice.remaining(state.game.dice).tolist(), "current_bid": bid}

    def boards(self, told):
        return []

    def shown(self, play, before, after, told):
        yield from super().shown(play, before, after, told)
        if int(after.offender) < 0 and told["state"]["last_bidder"] is not None:
            yield int(after.game.seat), 1 - told["state"]["last_bidder"]
        # New dice are thrown after calls only.
        if int(after.game.quantity) or int(after.errors):
            yield after.game.dice.tolist(), before.game.dice.tolist()
        # The round's line, and that on the last bid.
        lines = {kind: text for _, kind, text in told["new_messages"]}
        said, last = play.tell(before, told["player"]), int(before.game.quantity) > 0
        yield said.count("\n"), 2 + last
        if board := lines.get("GAME_BOARD"):
            yield said[: len(board)], board
        if last and (bid := lines.get("GAME_ACTION_DESCRIPTION")):
            yield said[-len(bid) - 1 :], "\n" + bid


GAMES = [
    TicTacToe("TicTacToe-v0", "TicTacToe-v1"),
    Board("ConnectFour-v0", "ConnectFour-v1"),
    Nim("Nim-v0", "Nim-v1"),
    PigDice("PigDice-v0-short", "PigDice-v1", target=50, turn_limit=25),
    LiarsDice("LiarsDice-v0-small", "LiarsDice-v1", dice=3),
]


@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_recorded_games_of_two_are_played_the_same(game, number):
    """Who moves, positions, texts, errors, rewards and ends."""
    played, play = game.games[number], player(game.name, **game.options)
    state, total = game.start(play, played), np.zeros(2)
    first = game.position(play, state)
    assert first == {name: played["initial_state"][name] for name in first}
    for told in played["steps"]:
        assert int(play.env.mover(state, play.params)) == told["player"]
        action = game.rule(play.env, told["action"])
        out = play.take(state, action, game.key(state, told))
        _, after, reward, terminated, info = out
        total += reward
        assert bool(terminated) == told["done"]
        agree(game.shown(play, state, after, told))
        if not told["done"]:
            assert int(after.errors) == told["error_count"]
            assert int(play.env.mover(after, play.params)) == told["next_player"]
        state = game.dealt(after, told["state"])
    assert total.tolist() == played["rewards"]
    lost_by_error = any(told["invalid_move"] for told in played["game_info"].values())
    assert {int(info["offender"]) >= 0, int(after.offender) >= 0} == {lost_by_error}
    assert info["success"].tolist() == [r > 0 and not lost_by_error for r in total]
