"""Recorded episodes, played through text: what is read, what is written, rewards and ends."""

import collections
import functools
import gzip
import json
import pathlib
import re

import jax.numpy as jnp
import numpy as np
import playing
import pytest

from envs.blackjack import BlackjackState
from envs.coin import NOWHERE, CoinState, room_name
from envs.frozen_lake import FrozenLakeState
from envs.number_line import NumberLineState
from envs.rules import frozen_lake as lake_rules

DATA = pathlib.Path(__file__).parents[2] / "data"
WAYS = ("north", "south", "east", "west")


@functools.cache
def recorded(name):
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))["episodes"]


def episodes(name, keep=lambda episode: True):
    kept = [episode for episode in recorded(name) if keep(episode)]
    return [pytest.param(episode, id=str(i)) for i, episode in enumerate(kept)]


class Player:
    """An environment in its faithful wording, played by writing commands."""

    def __init__(self, name, **options):
        options["wording"] = "faithful"
        self.env, self.params, self.reset, self._step = playing.functions(name, **options)
        self._parse = playing.reader(name, **options)
        self.read = playing.teller(name, **options)

    def write(self, state, command):
        """(state, reward, terminated, truncated, info, text) after a command."""
        _, state, reward, terminated, info = self._step(state, self._parse(command, state))
        truncated = bool(self.env.is_truncated(state, self.params))
        return state, float(reward), bool(terminated), truncated, info, self.read(state)


player = functools.cache(Player)


@pytest.mark.parametrize("episode", episodes("frozenlake", lambda e: not e["slippery"]))
def test_frozen_lake(episode):
    play = player("FrozenLake-v1", size=episode["size"], slippery=False, max_steps_in_episode=1000)
    desc = np.array([list(row) for row in episode["desc"]])
    state = FrozenLakeState(
        jnp.int32(0),
        lake_rules.pack(desc == "H"),
        jnp.int32(np.flatnonzero(desc.ravel() == "G")[0]),
        jnp.int32(episode["obs0"]),
    )
    assert play.read(state) == episode["text0"].replace("√", "*")
    for step in episode["steps"]:
        state, reward, terminated, _, _, text = play.write(state, step["name"])
        assert text == step["text"].replace("√", "*")
        assert (reward, terminated) == (step["reward"], step["terminated"])


@pytest.mark.parametrize("episode", episodes("sokoban"))
def test_sokoban(episode):
    play = player(
        "Sokoban-v1",
        size=tuple(episode["dim"]),
        boxes=episode["boxes"],
        actions="gym",
        max_steps_in_episode=1000,
    )
    fixed, codes = np.array(episode["fixed"]), np.array(episode["state0"])
    state = play.env.from_codes(np.where((codes == 5) & (fixed == 2), 6, codes))
    assert play.read(state) == episode["text0"].replace("√", "*")
    for step in episode["steps"]:
        command = step["info"]["action.name"]
        state, reward, terminated, _, _, text = play.write(state, command)
        assert text == step["text"].replace("√", "*")
        assert reward == pytest.approx(step["reward"], abs=1e-6)
        assert terminated == (step["done"] and step["info"]["all_boxes_on_target"])


@pytest.mark.parametrize("episode", episodes("maze_lmrl"))
def test_maze(episode):
    play = player(
        "Maze-v1",
        layout={"double_t_maze": "double_t", "umaze": "umaze"}[episode["maze"]],
        sight={
            "describe_observation_give_position": "position",
            "describe_observation": "goal",
            "describe_observation_only_walls": "walls",
        }[episode["describe"]],
        # LMRL-Gym answers the step after the hundredth with its failure.
        max_steps_in_episode=101,
    )
    env = play.env
    row, col = episode["start"]
    state = play.reset(playing.KEY)
    state = state.replace(position=jnp.uint8(row * env.shape[1] + col))
    assert play.read(state) == episode["obs0"]
    for step in episode["steps"]:
        state, reward, terminated, truncated, _, text = play.write(state, step["action"])
        assert text == step["obs"]
        assert (reward, terminated or truncated) == (step["reward"], step["done"])


def test_maze_fails_at_its_limit_and_spells_digits_apart():
    # Row 1 of the maze ends with two cells of column 10 and 11.
    play = player("Maze-v1", layout="double_t", sight="position", max_steps_in_episode=2)
    state = play.reset(playing.KEY)
    state = state.replace(position=jnp.uint8(1 * 13 + 11))
    goal, here = "The goal is at position 8, 6. ", "Your current position is at position "
    assert play.read(state) == (
        f"{goal}{here}1, 1 1. There are walls to your right, above you, below you.\n"
    )
    state, *_, text = play.write(state, "move left\n")
    assert text == f"{goal}{here}1, 1 0. There are walls above you, below you.\n"
    _, reward, terminated, truncated, _, text = play.write(state, "move left\n")
    assert (text, reward, terminated, truncated) == ("Failure\n", -1.0, False, True)


def coin_start(episode, rooms):
    """(state, names) of a recorded game: chain, then dead ends, then rooms that nothing leads to.

    With as many of these that one compiled environment serves for all games.
    """
    behind = collections.defaultdict(dict)
    for fact in episode["facts0"]:
        if match := re.fullmatch(r"(\w+)_of\((.+): r, (.+): r\)", fact):
            way, there, here = match.groups()
            behind[here][WAYS.index(way)] = there
    facts = " ".join(episode["facts0"])
    chain = [re.search(r"at\(P, (.+?): r\)", facts).group(1)]
    for command in episode["walkthrough"][:-1]:
        chain.append(behind[chain[-1]][WAYS.index(command.split()[1])])
    names = chain + sorted(set(behind) - set(chain))
    exits = np.full((rooms, 4), -1, np.int8)
    for here, ways in behind.items():
        for way, there in ways.items():
            exits[names.index(here), way] = names.index(there)
    coin = re.search(r"at\(coin: o, (.+?): r\)", facts).group(1)
    state = CoinState(
        time=jnp.int32(0),
        exits=jnp.asarray(exits),
        names=jnp.arange(rooms, dtype=jnp.uint8),
        coin=jnp.int8(names.index(coin)),
        room=jnp.int8(0),
        last_move=jnp.uint8(NOWHERE),
    )
    return state, names


def coin_text(feedback, names):
    """A recorded answer in our fixed wording and with our names of rooms.

    Off go the banner, the status line with what stands after the prompt, the score and the end of
    the game; the sentence on the room and those on its exits are reworded.
    """
    text = re.sub(r"\n>\s*.*", "", feedback, flags=re.DOTALL)
    text = re.sub(r"\n\n\n\nYour score has just gone up.*", "", text, flags=re.DOTALL)
    if "-= " in text:
        text = text[text.index("-= ") :]
    text = re.sub(
        r"There is an un(blocked|guarded) exit to the (\w+)\."
        r"|There is an exit to the (\w+)\. Don't worry, it is un(blocked|guarded)\."
        r"|You need an un(blocked|guarded) exit\? You should try going (\w+)\."
        r"|You don't like doors\? Why not try going (\w+), that entranceway is un\w+\.",
        lambda m: f"There is an exit to the {next(g for g in m.groups() if g in WAYS)}.",
        text,
    )
    if match := re.match(r"-= (.+) =-\n.*?(?=\n\n\n\n)", text, flags=re.DOTALL):
        name = room_name(names.index(match[1].lower()))
        article = "an" if name[0] in "aeiou" else "a"
        text = f"-= {name.title()} =-\nYou are in {article} {name}.{text[match.end() :]}"
    return text.strip()


@pytest.mark.parametrize(
    "episode", episodes("textworld", lambda episode: episode["kind"] == "coin_collector")
)
def test_coin(episode):
    # TextWorld does not say where one came from. Its levels have 30 rooms at most here.
    play = player("Coin-v1", show_last_move=False, quest_length=15, distractors=1)
    state, names = coin_start(episode, play.env.rooms)
    assert play.read(state).strip() == coin_text(episode["feedback0"], names)
    score = 0.0
    for step in episode["steps"]:
        state, reward, terminated, _, _, text = play.write(state, step["action"])
        assert text.strip() == coin_text(step["feedback"], names)
        score += reward
        assert (score, terminated) == (step["score"], step["done"])


def cards(name):
    return episodes("gym_cards", lambda episode: episode["env"] == name)


def written(step, commands):
    """The command of a recorded action; -1 was recorded for a reply that could not be read."""
    return commands[step["a"]] if step["a"] >= 0 else "hm"


def outcomes(step, reward, terminated, truncated, info):
    recorded_outcome = step["reward"], step["terminated"], step["truncated"], step["info"]["won"]
    assert (reward, terminated, truncated, bool(info["success"])) == recorded_outcome


@pytest.mark.parametrize("episode", cards("NumberLine"))
def test_number_line(episode):
    play = player("NumberLine-v1")

    def said(info):
        return f"Target number: {info['Target']}. Current number: {info['Current']}"

    start = episode["info0"]
    state = NumberLineState(jnp.int32(0), jnp.int32(start["Current"]), jnp.int32(start["Target"]))
    assert play.read(state) == said(start)
    for step in episode["steps"]:
        state, *outcome, text = play.write(state, written(step, "-+"))
        assert text == said(step["info"])
        outcomes(step, *outcome)


@pytest.mark.parametrize("episode", cards("EZPoints") + cards("Points24"))
def test_points(episode):
    play = player(f"{episode['env']}-v1")
    symbols = {"EZPoints": "+*=", "Points24": "+-*/()="}[episode["env"]]
    commands = [*map(str, range(1, 11)), *symbols]

    def said(info):
        formula = "".join(map(str, info["Formula"]))
        return f"Numbers: {info['Numbers']}. Current formula: {formula}."

    state = play.reset(playing.KEY)
    state = state.replace(cards=jnp.array(episode["info0"]["Numbers"], jnp.uint8))
    assert play.read(state) == said(episode["info0"])
    for step in episode["steps"]:
        state, *outcome, text = play.write(state, written(step, commands))
        assert text == said(step["info"])
        outcomes(step, *outcome)


@pytest.mark.parametrize("episode", cards("Blackjack"))
def test_blackjack(episode):
    play = player("Blackjack-v1")

    def state_of(info):
        values = [card[0] for card in info["Player Card"]]
        shown = info["Dealer Card"][0][0]
        state = (jnp.int32(sum(values)), jnp.bool_(1 in values), jnp.int32(shown), jnp.int32(0))
        return BlackjackState(jnp.int32(0), *state)

    def said(info):
        values = sorted(card[0] for card in info["Player Card"])
        soft = values[0] == 1 and sum(values) <= 11
        shown = info["Dealer Card"][0][0]
        card, end = "A" if shown == 1 else shown, ", with a usable ace." if soft else "."
        return f"Dealer's card: {card}. Player's points: {sum(values) + 10 * soft}{end}"

    # The cards to come are not recorded in our terms (`tests/envs/test_cards.py` replays the rules
    # with them): every recorded hand is read, and the command given there is understood.
    hands = [episode["info0"], *(step["info"] for step in episode["steps"])]
    for info in hands:
        assert play.read(state_of(info)) == said(info)
    for info, step in zip(hands, episode["steps"], strict=False):
        after, _, _, _, taken, _ = play.write(state_of(info), written(step, ["stand", "hit"]))
        assert bool(taken["valid"]) == (step["a"] >= 0)
        assert (int(after.dealer) > 0) == (step["a"] == 0)
