import dataclasses
import json
import pathlib
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.special import stdtrit

from agentrl.evaluation import credit_cards, credit_view, report, results, runs, statistics

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import directories  # noqa: E402

VOID = {"meta", "br", "wbr"}


class Reader(HTMLParser):
    """Checks that elements nest, and gathers what the tests ask about."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.attributes, self.text, self.ids = [], [], [], []
        self.scripts = 0
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, name, value) for name, value in attributes]
        self.ids += [value for name, value in attributes if name == "id"]
        self.scripts += tag == "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


def read(text):
    reader = Reader(text)
    return reader, " ".join(" ".join(reader.text).split())


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two runs of one environment; the second learns more, and was evaluated twice."""
    root = tmp_path_factory.mktemp("runs")
    worse = directories.write(root / "worse", evaluations=[directories.evaluation(40)])
    better = directories.write(
        root / "better",
        config={"advantage": {"name": "grpo"}, "num_seeds": 4},
        lines=directories.learning(seeds=(0, 1, 2, 3), best=0.5),
        evaluations=[directories.evaluation(20), directories.evaluation(40, expert=False)],
    )
    return runs.load([worse, better])


@pytest.fixture(scope="module")
def text(two):
    return report.report(two, samples=300)


def test_members_of_a_population_are_not_taken_for_seeds(two):
    one, other = two
    copying = dataclasses.replace(other, config={**other.config, "population": {"every": 20}})
    _, shown = read(str(results.ends([one, copying], 50)))
    assert "The seeds of better are members of a population and copy each other" in shown
    _, shown = read(str(results.ends(two, 50)))
    assert "population" not in shown


def test_well_formed_with_every_section(text):
    reader, _ = read(text)
    assert text.startswith("<!DOCTYPE html>")
    sections = [value for tag, name, value in reader.attributes if (tag, name) == ("section", "id")]
    assert (
        sections == "results comparison curves evaluation metrics anchors config provenance".split()
    )
    assert len(reader.ids) == len(set(reader.ids))
    links = {value for tag, name, value in reader.attributes if (tag, name) == ("a", "href")}
    assert {link[1:] for link in links if link.startswith("#")} <= set(reader.ids)


def test_self_contained(text):
    reader, _ = read(text)
    loads = {"src", "srcset", "poster", "data", "action", "xlink:href", "background"}
    assert not [a for a in reader.attributes if a[1] in loads]
    assert "@import" not in text and "url(" not in text
    elsewhere = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert elsewhere == {"https://arxiv.org/abs/2108.13264", "http://www.w3.org/2000/svg"}
    policy = [v for t, n, v in reader.attributes if t == "meta" and n == "content"][0]
    assert (
        policy.startswith("default-src 'none'") and "'unsafe-inline'; script-src 'sha256-" in policy
    )
    assert reader.scripts == 1


def test_numbers_are_those_of_the_statistics(two, text):
    _, words = read(text)
    for run in two:
        for metric in runs.HEADLINE:
            scores = run.final(metric)
            low, high = statistics.stratified_bootstrap(scores[:, None], samples=300)
            value = statistics.iqm(scores)
            decimals = 2 if max(value, high) >= 1 else 3
            expected = f"{value:.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"
            assert expected in words, (run.name, metric, expected)
    # Ends at 0.5 to 0.8 for the better's four seeds against 0.8 and 0.9: 1/2 of 8 pairs is a tie.
    x, y = (run.final("success_rate")[:, None] for run in two)
    value, interval = statistics.probability_of_improvement(x, y, samples=300)
    assert value == 7.5 / 8
    assert f"{value:.2f} [{interval.low:.2f}, {interval.high:.2f}]" in words


def test_final_numbers_by_hand(two):
    np.testing.assert_allclose(
        two[0].final("success_rate"), [directories.final_by_hand(b) for b in (0.8, 0.9)]
    )


def test_evaluation_with_regret_and_wilson(text):
    _, words = read(text)
    # Seed 0 succeeds in 2 of 4, seed 1 in 3 of 4; the expert always: 3/8 is lost.
    low, high = statistics.wilson(2, 4)
    assert f"0.500 [{low:.3f}, {high:.3f}]" in words
    regret = [1, 0.5, 0, 0]
    low, high = statistics.mean_interval(regret)
    decimals = 2 if high >= 1 else 3
    assert f"{0.375:.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]" in words
    assert "Success rate in evaluation" in words


def test_evaluations_in_other_environments(tmp_path):
    def lost(update, successes):
        record = directories.evaluation(update, expert=False)
        for played in record["per_seed"].values():
            played["success"] = [i < successes for i in range(4)]
        return record

    three = {"env": {"name": ["Nim-v1", "Pig-v1"]}, "init_from": "taught"}
    one = directories.write(
        tmp_path / "three",
        config=three,
        elsewhere=[("Nim-v1", lost(40, 3)), ("Pig-v1", lost(40, 0)), ("Nim-v1", lost(20, 1))],
    )
    other = directories.write(
        tmp_path / "lake",
        config={"init_from": "taught"},
        evaluations=[directories.evaluation(40)],
        elsewhere=[("Nim-v1", lost(40, 1))],
    )
    section = str(results.evaluation(runs.load([one, other]), 50))
    assert re.findall("<h3>([^<]+)</h3>", section) == ["Nim-v1", "Pig-v1"]
    own, nim, pig = (read(part)[1] for part in re.split("<h3>[^<]+</h3>", section))
    assert "lake update 40, sampled 2 × 4" in own and "three" not in own
    assert "three update 40, sampled 2 × 4 0.750" in nim
    assert "lake update 40, sampled 2 × 4 0.250" in nim
    # 3/4 less 1/4 in both seeds: differences of 0, 1, 1, 0, whose mean has deviation 0.289.
    width = stdtrit(3, 0.975) * np.sqrt(1 / 12)
    assert f"three − lake {0.5:.2f} [−{width - 0.5:.2f}, {0.5 + width:.2f}]" in nim
    assert "Success rate in evaluation" in nim
    # Nobody has succeeded in Pig: nothing says that it defines success.
    assert "three update 40, sampled 2 × 4 – " in pig


def test_curves_end_where_the_shortest_seed_ends(text):
    reader, _ = read(text)
    charts = [json.loads(v) for _, name, v in reader.attributes if name == "data-chart"]
    # Seed 0 makes 10 steps an update and 40 updates: 400 steps; it is the shortest of both.
    first = charts[0]
    assert [s["x"][-1] for s in first["series"]] == [400, 400]
    assert [s["name"] for s in first["series"]] == ["worse", "better"]


def test_config_differences_are_named(text):
    _, words = read(text)
    differs = words[words.index("What differs") : words.index("All ")]
    assert 'advantage.name "agentrl.advantages.gigpo" "grpo"' in differs
    assert "num_seeds 2 4" in differs
    assert "env.size" not in differs
    assert re.search(r'<tr class="differs"><th scope="row"><code>num_seeds', text)
    assert not re.search(r'<tr class="differs"><th scope="row"><code>env.size', text)


def test_same_input_same_report(two, text):
    assert report.report(two, samples=300) == text


EVALUATIONS = [directories.evaluation(20), directories.evaluation(40)]
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">\'"&'


def test_hostile_strings_stay_text(tmp_path):
    path = directories.write(
        tmp_path / "<img src=x onerror=alert(3)>",
        config={
            "env": {"name": HOSTILE},
            "advantage": {"name": HOSTILE, HOSTILE: HOSTILE},
            HOSTILE: 1,
        },
        lines=[line | {HOSTILE: 1.0, "entropy": 2.0} for line in directories.learning()],
        evaluations=[directories.evaluation(40)],
        provenance={"command": HOSTILE, HOSTILE: {HOSTILE: HOSTILE}},
    )
    loaded = runs.load([path])
    turn = credit_view.Turn(f">{HOSTILE}", HOSTILE, 0.5, 1.0, False, {HOSTILE: 1.0}, HOSTILE, 2)
    episode = credit_view.Episode((turn, turn), HOSTILE, HOSTILE, 1.0)
    view = credit_view.CreditView(HOSTILE, 1, 2, (0.0, 1.0), (episode,), 1.0)
    text = report.report(
        loaded, credit={loaded[0].name: report.Credit(credit_cards.section(view))}, samples=50
    )
    reader, words = read(text)
    assert reader.scripts == 1
    assert not [a for a in reader.attributes if a[0] == "img" or a[1].startswith("on")]
    assert HOSTILE in words, "it is there to be read"


def test_missing_and_partial_metrics(tmp_path):
    lines = directories.learning()
    for line in lines:
        if line["seed"] == 1:
            del line["entropy"]
            line.pop("success_rate") if line["update"] > 10 else None
    del lines[5]["episode_return"]
    run = runs.load([directories.write(tmp_path / "a", lines=lines, provenance={})])
    text = report.report(run, samples=50)
    _, words = read(text)
    assert not re.search(r"\bnan\b", words.lower()) and "command unknown" in words
    assert "fewer than 5 seeds (here 2)" in words


def test_least_possible_run(tmp_path):
    path = directories.write(tmp_path / "a", config={"env": {}}, lines=[{"seed": 0, "update": 1}])
    text = report.report(runs.load([path]), samples=50)
    reader, _ = read(text)
    assert "curves" not in reader.ids and "results" in reader.ids


def test_runs_from_one_start_are_compared_seed_by_seed(tmp_path):
    def written(name, start, best):
        record = directories.evaluation(40)
        for seed, successes in zip(("0", "1"), best, strict=True):
            record["per_seed"][seed]["success"] = [i < successes for i in range(4)]
        config = {"init_from": start} if start else {}
        return directories.write(tmp_path / name, config=config, evaluations=[record])

    paths = [
        written("a", "taught", (3, 4)),
        written("b", "taught", (2, 1)),
        written("c", "", (0, 0)),
    ]
    _, words = read(report.report(runs.load(paths), samples=50))
    # Seeds differ by 1/4 and 3/4: variance 1/8 of two. Tasks by 0, 1/2, 1, 1/2: 1/6 of four, of
    # which 1/48 is noise: residuals of 1/4 in eight places leave 1/6 for each of eight scores.
    seeds, tasks = 1 / 16, 1 / 24 - 1 / 48
    freedom = (seeds + tasks) ** 2 / (seeds**2 / 1 + tasks**2 / 3)
    width = stdtrit(freedom, 0.975) * np.sqrt(seeds + tasks)
    assert f"a − b 0.50 [−{width - 0.5:.2f}, {0.5 + width:.2f}]" in words
    assert "compared seed by seed" in words
    # c started elsewhere: its seeds are not the partners of a's.
    apart = statistics.crossed_difference([[1, 1, 1, 0], [1, 1, 1, 1]], np.zeros((2, 4)))[1]
    shown = f"{0.875:.2f} [{apart.low:.2f}, {apart.high:.2f}]".replace("-", "−")
    assert f"a − c {shown}" in words


def test_environments_without_success(tmp_path):
    lines = directories.learning()
    for line in lines:
        del line["success_rate"]
    run = runs.load([directories.write(tmp_path / "a", lines=lines, evaluations=EVALUATIONS)])
    text = report.report(run, samples=50)
    assert "success_rate" not in text and "Success rate in evaluation" not in text
    assert "Return in evaluation" in text


def test_one_seed_has_no_interval_and_says_so(tmp_path):
    lines = directories.learning(seeds=(0,))
    run = runs.load([directories.write(tmp_path / "a", lines=lines)])
    text = report.report(run, samples=50)
    _, words = read(text)
    assert (
        f"{directories.final_by_hand(0.8):.3f} " in words
        and "[" not in words.split("note")[0][:200]
    )
    assert 'class="band' not in text


def test_metrics_can_be_chosen(two):
    text = report.report(two, metrics=["entropy"], samples=50)
    section = text[text.index('id="metrics"') : text.index('id="anchors"')]
    assert section.count("<figure") == 1 and "entropy" in section
    with pytest.raises(ValueError, match="no run has metric 'entropi'; there are .*entropy"):
        report.report(two, metrics=["entropi"])


def test_anchor_shares_are_stacked_in_order_of_size(text):
    section = text[text.index('id="anchors"') : text.index('id="config"')]
    labels = re.findall(r"</svg>([^<]+)</li>", section[: section.index("<figure")])
    assert labels == ["1 (alone)", "2 to 3", "16 and more"]
    # Where seed 0 ends, at 400 steps, it is at 0.5 and seed 1 at 0.5 * 400 / 440.
    assert "1 (alone): 48%, 2 to 3: 20%, 16 and more: 32%" in section


def test_runs_of_different_environments_are_not_compared(tmp_path):
    lake = directories.write(tmp_path / "lake")
    maze = directories.write(tmp_path / "maze", config={"env": {"name": "Maze-v1"}})
    text = report.report(runs.load([lake, maze]), samples=50)
    assert 'id="improvement"' not in text
    assert re.findall(r"<h3>([^<]+)</h3>", text)[:2] == ["FrozenLake-v1", "Maze-v1"]


def test_why_there_is_no_credit_view(two):
    text = report.report(two, credit={"worse": report.Credit(None, "no <checkpoint>")}, samples=50)
    assert "Not shown: no &lt;checkpoint&gt;" in text


def one_seed(root, name, best, successes):
    record = directories.evaluation(40, seeds=(0,), expert=False)
    record["per_seed"]["0"]["success"] = [i < successes for i in range(4)]
    record["per_seed"]["0"]["episode_return"] = [float(i < successes) for i in range(4)]
    lines = directories.learning(seeds=(0,), best=best)
    for line in lines:
        line["episode_return"] = line["success_rate"]
        line |= {"entropy/turn_2": 1.0, "entropy/turn_16": 1.0 + line["update"]}
        line |= {"once": 3.0} if line["update"] == 40 else {}
    return directories.write(
        root / name, config={"num_seeds": 1}, lines=lines, evaluations=[record]
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Two runs of a seed each; the first solved 4 of the same 4 tasks, the second 2."""
    root = tmp_path_factory.mktemp("alone")
    return runs.load([one_seed(root, "a", 0.68, 4), one_seed(root, "b", 0.53, 2)])


def test_single_seeds_are_compared_over_tasks_and_not_over_seeds(alone):
    _, words = read(report.report(alone, samples=50))
    # Differences 0, 0, 1, 1: of four pairs.
    width = stdtrit(3, 0.975) * np.sqrt(1 / 12)
    assert f"a − b 0.50 [−{width - 0.5:.2f}, {0.5 + width:.2f}]" in words
    assert "Tasks of one seed do not speak about seeds" in words
    assert "Whether a method or a lucky seed is at work cannot be told" in words
    assert "Seed against seed" not in words and "probability" not in words
    assert "Over seeds and tasks" not in words


def test_several_seeds_are_compared_over_seeds_and_tasks(text, two):
    _, words = read(text)
    assert "Intervals are over both seeds (2 and 2) and the 4 tasks" in words
    assert "do not speak about seeds" not in words
    # 2 and 4 seeds that are all apart: 2 of the 15 orders.
    assert "Seed against seed" in words and "0.13" in words


def test_equal_data_have_equal_axes(alone):
    reader, _ = read(report.report(alone, samples=50))
    charts = re.findall(r"<figure.*?</figure>", report.report(alone, samples=50), flags=re.DOTALL)
    drawn = {}
    for chart in charts:
        for key in ("success_rate", "episode_return"):
            if f'class="raw">{key}<' in chart:
                ticks = re.findall(r'class="tick end"[^>]*>([^<]+)</text>', chart)
                drawn.setdefault(key, []).append((re.findall(r' d="([^"]+)"', chart), ticks))
    assert drawn["success_rate"] == drawn["episode_return"] and drawn["success_rate"]
    (_, ticks), *_ = [d for d in drawn["success_rate"] if d[0]]
    assert ticks[0] == "0" and "1" in ticks


def test_metrics_come_before_cards_and_cards_are_folded(alone):
    credit = {run.name: report.Credit(None, "none") for run in alone}
    text = report.report(alone, credit=credit, samples=50)
    assert text.index('id="metrics"') < text.index('id="credit"')
    cards = text[text.index('id="credit"') : text.index('id="config"')]
    assert cards.count("<details") == 2 and " open" not in cards


def test_metrics_have_names_units_and_an_order_by_value(alone):
    text = report.report(alone, samples=50)
    section = text[text.index('id="metrics"') : text.index('id="anchors"')]
    titles = re.findall(r"<figcaption><b>([^<]+)</b>", section)
    assert titles.index("Entropy, turn 2") < titles.index("Entropy, turn 16")
    assert '<b>Entropy</b><span class="unit">nats</span>' in section
    assert '<code class="raw">entropy/turn_16</code>' in section


def test_a_point_is_a_number_in_a_table_and_no_chart(alone):
    text = report.report(alone, samples=50)
    section = text[text.index('id="metrics"') : text.index('id="anchors"')]
    once = section[section.index("Written once") :]
    assert "<figure" not in once and ">once</code>" in once and once.count(">3.00<") == 2
    evaluation = text[text.index('id="evaluation"') : text.index('id="metrics"')]
    assert "<figure" not in evaluation


def test_tables_become_cards_with_the_names_of_their_columns(alone):
    text = report.report(alone, samples=50)
    assert "@media (max-width: 700px)" in text and "content: attr(data-label)" in text
    results = text[text.index('id="results"') : text.index('id="comparison"')]
    assert results.count('data-label="Success rate"') == 2


def test_groups_of_one_raise_no_alarm_beside_a_critic(tmp_path):
    lines = [
        line | {"frac_zero_std_groups": 1.0, "approx_kl": 0.0} for line in directories.learning()
    ]
    gae = {"advantage": {"name": "agentrl.advantages.gae"}}
    paths = [
        directories.write(tmp_path / "grpo", lines=lines),
        directories.write(tmp_path / "ppo", lines=lines, config=gae),
    ]
    texts = [report.report(runs.load([path]), samples=50) for path in paths]
    assert ['id="alarms"' in text for text in texts] == [True, False]
    assert "config.rollout.group_size" in texts[0]
