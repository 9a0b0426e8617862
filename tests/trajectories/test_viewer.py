"""The page of a file of episodes: everything is on it once, escaped, and boards are drawn."""

import html.parser
import re

import pytest
from in_process import call_here

from agentrl.trajectories import attribution, counterfactual, expert_faults, files, schema, viewer

HOSTILE = '<script>alert("1")</script> & <b>'


class Parsed(html.parser.HTMLParser):
    """Elements, text, and targets of links."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.links, self.ids, self.sources = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.links += [attributes["href"]] if "href" in attributes else []
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.sources += [attributes["src"]] if "src" in attributes else []

    def handle_data(self, data):
        self.text.append(data)


def spoken(name, success):
    turns = (
        schema.Turn(0, 0.25, False, False, success=False, valid=False, advantage=-1.5),
        schema.Turn(1, float(success), True, False, success=success, advantage=0.5, stop="length"),
    )
    spans = (
        schema.Span("observation", 0, (5, 6), f"room {name} {HOSTILE}"),
        schema.Span("action", 0, (7,), f"go {HOSTILE}", trained=True, logp=(-0.5,)),
        schema.Span("observation", 1, (8,), "hall"),
        schema.Span("action", 1, (9, 9), "st\udcffop", trained=True, logp=(-1.0, -3.0)),
    )
    agent = schema.Agent(turns=turns, rows=(spans,))
    return schema.Episode(name, schema.Task("Made-v1", {}, 2), (agent,), group=3)


def test_what_was_said_is_on_the_page():
    episodes = [spoken("0/1/0", True), spoken("0/1/1", False), spoken("0/1/2", False)]
    text = viewer.viewer("made", episodes, turns_of=["0/1/1", "0/1/0"])
    page = Parsed(text)
    told = "".join(page.text)
    assert page.tags.count("script") == 1 and not page.sources
    assert told.count(f"go {HOSTILE}") == 2 and "room 0/1/2" not in told
    assert told.index("room 0/1/1") < told.index("room 0/1/0")
    assert "1 tokens, mean log-probability -0.500" in told and "log-probability -2.000" in told
    assert told.count("not valid") == told.count("cut at its longest") == 2
    assert "−1.50" in told and "+0.50" in told and "3 episodes of Made-v1: 1 solved" in told
    targets = [link[1:] for link in page.links]
    assert {"episode-0-1-0", "episode-0-1-1"} <= set(targets) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    with pytest.raises(ValueError, match="no episode"):
        viewer.viewer("none", [], turns_of=[])


def test_boards_are_drawn_and_the_turn_to_blame_is_marked(tmp_path):
    """A fault after which the expert goes on: the page names its turn."""
    task = schema.Task("FrozenLake-v1", {"size": 4, "max_steps_in_episode": 8}, 8)
    (injected,) = expert_faults.draw(task, 1, seed=0)
    episode = injected.episode
    blame = attribution.blame(episode, counterfactual.outcome(episode))
    text = viewer.viewer("lake", [episode], turns_of=[episode.id], blames={episode.id: blame})
    turns = len(episode.agents[0].turns)
    boards = re.findall(r'<svg class="board".*?</svg>', text)
    assert len(boards) == turns + 1 and boards[0] != boards[-1]
    told = "".join(Parsed(text).text)
    assert told.count("to blame") == 1
    assert re.search(rf"turn {blame.step.turn}: (left|right|up|down)[^0-9]*to blame", told)
    # The command writes the same.
    path = tmp_path / "lake.jsonl"
    files.write(path, [episode])
    done = call_here("trajectories", f"--view={path}", "--explain")
    assert "lake.html" in done.stdout, done.stderr
    assert (tmp_path / "lake.html").read_text() == text
