"""The shell of a report: its script, and a content security policy that blocks all else."""

import base64
import hashlib
from collections.abc import Sequence

from agentrl.evaluation.markup import Markup, join, tag
from agentrl.evaluation.style import STYLE

# Values under the pointer in a chart, the other turns of an anchor group, and all details in print.
# Everything can be read without it. Text is only ever set as textContent.
SCRIPT = """
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const show = (v) => v === null ? "–" : Number(v.toPrecision(4)).toLocaleString("en");
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const chart = JSON.parse(figure.dataset.chart), svg = figure.querySelector("svg");
  const [left, top, right, bottom] = chart.plot, [first, last] = chart.x;
  const cursor = document.createElementNS(SVG, "line"), tip = document.createElement("div");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", top);
  cursor.setAttribute("y2", bottom);
  tip.className = "tip";
  const leave = () => { cursor.remove(); tip.remove(); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * chart.width;
    if (at < left || at > right) return leave();
    const x = first + (at - left) / (right - left) * (last - first);
    tip.replaceChildren(line(chart.label + " " + show(x), ""));
    for (const s of chart.series) {
      if (x < s.x[0] || x > s.x[s.x.length - 1]) continue;
      let i = 0;
      while (i + 1 < s.x.length && Math.abs(s.x[i + 1] - x) <= Math.abs(s.x[i] - x)) i++;
      const band = s.low[i] === null ? "" : " [" + show(s.low[i]) + ", " + show(s.high[i]) + "]";
      tip.append(line(s.name + " " + show(s.y[i]) + band, s.style));
    }
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
    svg.append(cursor);
    figure.append(tip);
    const inside = figure.getBoundingClientRect(), room = inside.width - tip.offsetWidth - 4;
    const beside = event.clientX - inside.left + 14;
    tip.style.left = (beside <= room ? beside : Math.max(4, beside - tip.offsetWidth - 28)) + "px";
    tip.style.top = event.clientY - inside.top + 12 + "px";
  });
}
function line(text, style) {
  const row = document.createElement("div");
  if (style) {
    const key = document.createElement("span");
    key.className = "key " + style;
    row.append(key);
  }
  row.append(text);
  return row;
}
for (const credit of document.querySelectorAll(".credit")) {
  const light = (event, on) => {
    const badge = event.target.closest(".anchor");
    if (!badge) return;
    for (const turn of credit.querySelectorAll("li[data-anchor]")) {
      if (turn.dataset.anchor === badge.dataset.anchor) turn.classList.toggle("lit", on);
    }
  };
  credit.addEventListener("pointerover", (event) => light(event, true));
  credit.addEventListener("pointerout", (event) => light(event, false));
  credit.addEventListener("focusin", (event) => light(event, true));
  credit.addEventListener("focusout", (event) => light(event, false));
}
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
"""


def page(title: str, lead: Markup, sections: Sequence[tuple]) -> str:
    """The whole document. sections: (id, heading, content) each, or with a sentence about it."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=allowed),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · agentrl"),
        tag("style", Markup(STYLE)),
    )
    links = [tag("li", tag("a", name.capitalize(), href=f"#{name}")) for name, *_ in sections]
    body = tag(
        "body",
        tag("header", tag("div", tag("p", "agentrl", class_="kicker"), tag("h1", title), lead)),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag("main", *[_section(*section) for section in sections]),
        tag("script", Markup(SCRIPT)),
    )
    return join(Markup("<!DOCTYPE html>\n"), tag("html", head, body, lang="en"), Markup("\n"))


def _section(name: str, heading: str, content: Markup, about: str = "") -> Markup:
    """Heading and sentence in a column of their own, where the screen is wide enough."""
    side = [tag("h2", heading, id=f"{name}-heading")]
    side.append(tag("p", about, class_="note") if about else None)
    return tag(
        "section",
        tag("div", *side, class_="side"),
        tag("div", content, class_="body"),
        id=name,
        aria_labelledby=f"{name}-heading",
    )
