import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from agentrl.evaluation import boards, figures, markup


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"),
        (1, "1"),
        (-0.25, "−0.25"),
        (0.98312, "0.983"),
        (1234, "1,234"),
        (12_345, "12.3k"),
        (999_999, "1M"),
        (1_500_000, "1.5M"),
        (2e-5, "2.0e−5"),
        (float("nan"), "–"),
    ],
)
def test_numbers_for_people(value, text):
    assert figures.number(value) == text


@pytest.mark.parametrize("low, high", [(0, 1), (-3.2, 7.9), (1e5, 1.2e6), (0.011, 0.0112)])
def test_ticks_are_round_and_inside(low, high):
    found = figures.ticks(low, high, 5)
    assert 3 <= len(found) <= 9
    assert low - 1e-9 <= found[0] and found[-1] <= high * (1 + 1e-9)
    step = found[1] - found[0]
    mantissa = step / 10 ** np.floor(np.log10(step) + 1e-9)
    assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-6


def series(y, low=None, high=None, name="run"):
    nothing = np.full(len(y), np.nan)
    x = np.arange(len(y), dtype=float)
    return figures.Series(
        name, 0, x, np.array(y), nothing if low is None else low, nothing if high is None else high
    )


def points(path):
    return np.array([[float(v) for v in p.split()] for p in re.findall(r"[ML]([^MLZ]+)", path)])


def test_lines_put_values_where_they_belong():
    chart = figures.lines("m", [series([0.0, 0.5, 1.0])], x_label="x", y_range=(0, 1))
    (drawn,) = re.findall(r'class="line series-0" d="([^"]+)"', chart)
    at = points(drawn)
    assert at[0, 0] < at[1, 0] < at[2, 0]
    # Up is down in SVG; the middle value is in the middle.
    np.testing.assert_allclose(at[1], (at[0] + at[2]) / 2, atol=0.06)
    assert at[0, 1] > at[2, 1]
    assert "band" not in chart, "no interval, no band"
    assert "run ends at 1" in chart, "the label says it for those who do not see"


def test_gaps_break_the_line_and_bands_close():
    with_gap = series([0.0, np.nan, 1.0, 2.0])
    chart = figures.lines("m", [with_gap], x_label="x")
    (drawn,) = re.findall(r'class="line series-0" d="([^"]+)"', chart)
    assert drawn.count("M") == 2 and drawn.count("L") == 1
    banded = series([1.0, 2.0], low=np.array([0.0, 1.0]), high=np.array([2.0, 3.0]))
    (band,) = re.findall(
        r'class="band series-0" d="([^"]+)"', figures.lines("m", [banded], x_label="")
    )
    assert len(points(band)) == 4 and band.endswith("Z")


@pytest.mark.parametrize("values", [[3.0], [0.0, 0.0], [5.0, 5.0], [np.nan, np.nan]])
def test_degenerate_curves_are_drawn_in_finite_numbers(values):
    chart = figures.lines("m", [series(values)], x_label="x")
    assert "nan" not in chart and "inf" not in chart


def test_chart_data_is_json_without_nan():
    chart = figures.lines('<b>"', [series([0.0, np.nan])], x_label="x")

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag == "figure":
                self.data = json.loads(dict(attributes)["data-chart"])

    reader = Reader()
    reader.feed(chart)
    assert reader.data["series"][0]["y"] == [0.0, None]
    assert "<b>" not in chart.replace("<b>&lt;b&gt;", "")


def test_stacked_shares_fill_the_picture():
    shares = {"a": np.array([0.25, 0.5]), "b": np.array([0.75, 0.5])}
    chart = figures.stack("m", np.array([0.0, 1.0]), shares, x_label="x")
    first, second = (points(p) for p in re.findall(r'class="area ordered-\d" d="([^"]+)"', chart))
    # The second begins where the first ends, and ends at the top.
    np.testing.assert_allclose(first[2:][::-1], second[:2])
    assert len(set(second[2:, 1])) == 1
    assert "at the end a: 50%, b: 50%" in chart


def test_whiskers_only_where_there_is_an_interval():
    nan = float("nan")
    assert 'class="whisker' in figures.whisker(0.5, 0.2, 0.7, (0, 1), 0)
    assert 'class="whisker' not in figures.whisker(0.5, nan, nan, (0, 1), 0)
    assert "nan" not in figures.whisker(0.5, 0.5, 0.5, (0.5, 0.5), 0)


def test_heat_maps_say_every_number_and_colour_by_sign():
    values = np.array([[0.0, -2.0], [2.0, 0.0]])
    drawn = figures.heat_map("Payoff", ["<a>", "b"], values, [["", "± 1"], ["± 1", ""]])
    assert "&lt;a&gt;: 0, −2; b: 2, 0" in drawn and "<a>" not in drawn
    shades = re.findall(r'class="area (series-\d)" fill-opacity="([\d.]+)"', drawn)
    assert shades == [("series-0", "0.00"), ("series-1", "0.75"), ("series-0", "0.75")] + shades[:1]
    assert drawn.count("± 1") == 2
    nothing = figures.heat_map("Payoff", ["a"], np.zeros((1, 1)), [[""]])
    assert "nan" not in nothing


def test_styles_repeat_dashed():
    assert figures.style(1) == "series-1"
    assert figures.style(9) == "series-1 dashed"


def test_markup_escapes_everything_else():
    made = markup.tag("p", "<script>", markup.tag("b", "&"), title='"><script>', class_=None)
    assert made == '<p title="&quot;&gt;&lt;script&gt;">&lt;script&gt;<b>&amp;</b></p>'
    assert markup.tag("details", open=True, hidden=False) == "<details open></details>"
    assert markup.join("a", None, ["<", markup.Markup("<br>")]) == "a&lt;<br>"


SOKOBAN = "######\n#__O_#\n#_XP_#\n#*_S_#\n######"


def test_grid_draws_each_kind_once_and_letters_on_top():
    glyphs = boards.palette("Sokoban-v1")
    assert boards.is_grid(SOKOBAN, glyphs)
    drawn = boards.grid(SOKOBAN, glyphs, "a <level>")
    assert drawn.count("<path") == len(set(SOKOBAN) - {"\n"})
    letters = re.findall(r"<text[^>]*>(.)</text>", drawn)
    assert sorted(letters) == sorted("OXP*S"), "walls and floor carry no letter"
    # The wall's path has one square a wall: 6 + 6 + 3 * 2.
    wall = re.search(r'<path d="([^"]+)" fill="#5b6472"', drawn).group(1)
    assert wall.count("M") == 18
    assert 'aria-label="a &lt;level&gt;"' in drawn


def test_palettes_depend_on_the_environment():
    assert boards.palette("FrozenLake")["X"][1] == "player in a hole"
    assert boards.palette("Sokoban-v1")["X"][1] == "box"
    assert boards.palette("Mine-v3") == boards.GLYPHS


@pytest.mark.parametrize("text", ["cards 4 8", "##\n#", "one\nline is longer", "?#\n##"])
def test_other_text_is_no_grid(text):
    assert not boards.is_grid(text, boards.GLYPHS)


def test_text_shows_what_changed_and_marks_the_place():
    before, after = "> hall: east <b>\n  loft: west", "  hall: east <b>\n> loft: west"
    assert "hall: east &lt;b&gt;" in boards.text(before, None)
    still = "> hall: east\n  loft: west\n  attic"
    moved = boards.text("  hall: east\n> loft: west\n  attic", still)
    assert "<mark>&gt; loft: west</mark>" in moved and "attic" not in moved
    assert "unchanged" in boards.text(after, after)
