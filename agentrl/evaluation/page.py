"""The shell of a report: style sheet, script, and a content security policy that blocks all
else."""

import base64
import hashlib

from agentrl.evaluation.markup import Markup, join, tag

# Series colours are Okabe and Ito's, darkened or lightened for contrast with the background.
STYLE = """
:root {
  color-scheme: light dark;
  --ground: #fbfbfa; --card: #ffffff; --ink: #1d2228; --soft: #5c6570; --rule: #e1e4e8;
  --mark: #fff3c4; --link: #0a5fa8;
  --s0: #0072b2; --s1: #d55e00; --s2: #00856a; --s3: #b0578d; --s4: #b98200; --s5: #2f9fd6;
  --s6: #5c6570; --s7: #8a6d3b;
  --o0: #c3c9d0; --o1: #e9c46a; --o2: #5fb49c; --o3: #2d7f9d; --o4: #3b3f7a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171b; --card: #1b1f25; --ink: #e4e7eb; --soft: #9aa4b0; --rule: #323943;
    --mark: #4a4117; --link: #6cb6f0;
    --s0: #4ba6e0; --s1: #f08a45; --s2: #37bd9b; --s3: #da8fbd; --s4: #e6b23c; --s5: #8ad0f5;
    --s6: #a9b3be; --s7: #c4a26a;
    --o0: #59616b; --o1: #e9c46a; --o2: #5fb49c; --o3: #3a93b5; --o4: #7d83d0;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 3.2rem; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main, header > div, nav > ul { max-width: 1240px; margin: 0 auto; padding: 0 24px; }
header { padding: 30px 0 14px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 4px; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 46px 0 6px; }
h3 { font-size: 1.02rem; margin: 26px 0 6px; }
h4 { font-size: .92rem; margin: 0; padding: 8px 10px; border-bottom: 1px solid var(--rule);
  display: flex; justify-content: space-between; gap: 8px; align-items: baseline; }
p { margin: 4px 0 12px; max-width: 76ch; }
a { color: var(--link); }
.note, .lead { color: var(--soft); }
.note { font-size: .84rem; font-weight: 400; }
nav { position: sticky; top: 0; z-index: 5; background: var(--ground);
  border-bottom: 1px solid var(--rule); }
nav > ul { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 20px; padding: 8px 24px; }
nav a { text-decoration: none; font-size: .9rem; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }

.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem;
  background: var(--card); border: 1px solid var(--rule); }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid var(--rule);
  vertical-align: middle; }
th { font-weight: 600; }
tbody th { white-space: nowrap; }
thead th { color: var(--soft); font-size: .82rem; font-weight: 500; white-space: nowrap; }
td.n { text-align: right; white-space: nowrap; }
td.metric { white-space: nowrap; }
td.metric svg { display: block; margin-top: 2px; }
tr.differs { background: var(--mark); }
td code { white-space: pre-wrap; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .84em; }
pre.command { background: var(--card); border: 1px solid var(--rule); padding: 8px 12px;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0; }
details { margin: 8px 0; }
summary { cursor: pointer; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 8px;
  background: var(--c); }

.charts { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 350px), 1fr)); }
.small { grid-template-columns: repeat(auto-fill, minmax(min(100%, 270px), 1fr)); }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  padding: 10px 10px 6px; position: relative; break-inside: avoid; min-width: 0;
  display: flex; flex-direction: column; justify-content: space-between; }
figcaption { display: flex; flex-wrap: wrap; gap: 0 10px; align-items: baseline; margin-bottom: 4px;
  font-size: .9rem; overflow-wrap: anywhere; }
.charts svg { width: 100%; height: auto; display: block; overflow: visible; }
.charts > figure:only-child { max-width: 720px; }
.tick { fill: var(--soft); font-size: 11px; }
.value { fill: var(--ink); font-size: 13px; }
.map { max-width: 720px; }
.mark { fill: #fff; font-size: 11px; font-weight: 600; }
.flight svg + svg { border-top: 1px solid var(--rule); margin-top: 6px; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: var(--rule); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.dashed { stroke-dasharray: 5 3; }
.band { fill: var(--c); opacity: .17; }
.dot { fill: var(--c); }
.whisker { stroke: var(--c); stroke-width: 3; opacity: .55; }
.area { fill: var(--c); stroke: var(--card); stroke-width: .6; }
.mini { width: 150px; height: 16px; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 18px; padding: 0;
  margin: 6px 0 10px; font-size: .88rem; }
.legend li { display: inline-flex; align-items: center; gap: 7px; overflow-wrap: anywhere; }
.swatch { width: 22px; height: 12px; flex: none; }
.tip { position: absolute; pointer-events: none; background: var(--card); z-index: 3;
  border: 1px solid var(--rule); border-radius: 4px; padding: 4px 8px; font-size: .8rem;
  box-shadow: 0 2px 8px rgba(0,0,0,.16); white-space: nowrap; font-variant-numeric: tabular-nums; }
.cursor { stroke: var(--soft); stroke-dasharray: 2 3; }
.series-0 { --c: var(--s0); } .series-1 { --c: var(--s1); } .series-2 { --c: var(--s2); }
.series-3 { --c: var(--s3); } .series-4 { --c: var(--s4); } .series-5 { --c: var(--s5); }
.series-6 { --c: var(--s6); } .series-7 { --c: var(--s7); }
.ordered-0 { --c: var(--o0); } .ordered-1 { --c: var(--o1); } .ordered-2 { --c: var(--o2); }
.ordered-3 { --c: var(--o3); } .ordered-4 { --c: var(--o4); }

.episodes { display: grid; gap: 14px; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 250px), 1fr)); }
.episodes > section { background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  min-width: 0; }
.credit ol { list-style: none; margin: 0; padding: 0; counter-reset: none; }
.turn { display: grid; grid-template-columns: auto 1fr; gap: 2px 12px; padding: 8px 10px;
  border-bottom: 1px solid var(--rule); border-left: 3px solid transparent; break-inside: avoid; }
.turn:has(pre) { grid-template-columns: minmax(0, 1fr); }
.turn > .board { grid-row: span 2; }
.turn:has(pre) > .board { grid-row: auto; }
.turn > .did { align-self: end; display: flex; flex-wrap: wrap; gap: 2px 8px;
  align-items: baseline; }
.turn > .cells { align-self: start; display: flex; flex-wrap: wrap; gap: 4px; }
h4 .note, .did .note { white-space: nowrap; }
.turn.last > .did { align-self: center; }
.turn.lit { border-left-color: var(--s1); background: var(--mark); }
svg.board { border-radius: 3px; }
svg.board text { font: 600 .62px system-ui, sans-serif; text-anchor: middle; }
pre.board { margin: 0 0 4px; white-space: pre-wrap; font-size: .76rem; line-height: 1.35;
  color: var(--soft); overflow-wrap: anywhere; }
pre.board span { display: block; padding-left: 3ch; text-indent: -3ch; }
pre.board mark { background: none; color: var(--ink); font-weight: 600; }
.cell { padding: 1px 7px; border-radius: 3px; font-size: .82rem; white-space: nowrap;
  font-variant-numeric: tabular-nums; border: 1px solid var(--rule);
  background: linear-gradient(var(--shade), var(--shade)), var(--card); }
.cell i { font-style: normal; color: var(--soft); font-size: .92em; }
.talk .read { white-space: pre-wrap; margin: 0; color: var(--soft); font-size: .8rem; }
.token { margin-right: 3px; white-space: pre-wrap; } .token.control { font-style: italic; }
.anchor { font-size: .78rem; font-weight: 600; padding: 0 6px; border: 1px solid var(--soft);
  border-radius: 9px; cursor: default; }
.alone { font-size: .78rem; color: var(--soft); }
.invalid { font-size: .78rem; font-weight: 600; color: var(--s1); }
.scale { display: flex; flex-wrap: wrap; gap: 3px; align-items: center; margin: 6px 0; }
.more { padding: 4px 10px; }
.run > summary { font-weight: 600; margin: 18px 0 6px; }

@media (max-width: 700px) { main, header > div, nav > ul { padding: 0 14px; } }
@page { size: landscape; margin: 12mm; }
@media print {
  nav, .tip { display: none; }
  html { font-size: 11px; }
  body { background: #fff; font-size: 11px; }
  th, td { padding: 3px 7px; }
  .scroll { overflow: visible; }
  main { max-width: none; padding: 0; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  .episodes { grid-template-columns: repeat(4, 1fr); }
  svg.board { height: 56px; width: auto; }
  .charts { grid-template-columns: repeat(2, 1fr); }
  .small { grid-template-columns: repeat(3, 1fr); }
  h2, h3, .legend, .note { break-after: avoid; }
}
"""

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


def page(title: str, lead: Markup, sections: list[tuple[str, str, Markup]]) -> str:
    """The whole document. sections: (id, heading, content) each."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=allowed),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    links = [tag("li", tag("a", name.capitalize(), href=f"#{name}")) for name, *_ in sections]
    body = tag(
        "body",
        tag("header", tag("div", tag("h1", title), lead)),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag(
            "main",
            *[
                tag(
                    "section",
                    tag("h2", heading, id=f"{name}-heading"),
                    content,
                    id=name,
                    aria_labelledby=f"{name}-heading",
                )
                for name, heading, content in sections
            ],
        ),
        tag("script", Markup(SCRIPT)),
    )
    return join(Markup("<!DOCTYPE html>\n"), tag("html", head, body, lang="en"), Markup("\n"))
