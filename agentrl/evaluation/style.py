"""The style sheet of reports: one for wide screens, phones, dark mode and paper."""

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
main, header > div, nav > ul { max-width: 1280px; margin: 0 auto; padding: 0 28px; }
header { padding: 34px 0 18px; }
.kicker { margin: 0; font-size: .82rem; font-weight: 600; color: var(--soft);
  letter-spacing: .02em; }
h1 { font-size: 1.9rem; line-height: 1.15; margin: 0 0 6px; letter-spacing: -.015em;
  overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; line-height: 1.25; margin: 0 0 6px; }
h3 { font-size: 1rem; margin: 30px 0 8px; }
main > section { display: grid; grid-template-columns: 196px minmax(0, 1fr); gap: 0 36px;
  padding: 30px 0; border-top: 1px solid var(--rule); }
main > section:first-child { border-top: 0; }
.body > :first-child { margin-top: 0; }
.side .note { margin: 0; }
.said { margin: 0 0 20px; padding: 0; list-style: none; max-width: 74ch; }
.said li { padding: 0 0 8px 14px; border-left: 3px solid var(--rule); }
.said li:last-child { padding-bottom: 0; }
h4.family { display: block; border: 0; padding: 0; margin: 26px 0 8px; font-size: .86rem;
  color: var(--soft); font-weight: 600; }
h4 { font-size: .92rem; margin: 0; padding: 8px 10px; border-bottom: 1px solid var(--rule);
  display: flex; justify-content: space-between; gap: 8px; align-items: baseline; }
p { margin: 4px 0 12px; max-width: 76ch; }
a { color: var(--link); }
.note, .lead { color: var(--soft); }
.note { font-size: .84rem; font-weight: 400; }
nav { position: sticky; top: 0; z-index: 5; background: var(--ground);
  border-bottom: 1px solid var(--rule); }
nav > ul { list-style: none; display: flex; gap: 2px 20px; padding: 9px 28px; overflow-x: auto; }
nav a { text-decoration: none; font-size: .88rem; white-space: nowrap; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }

.scroll { overflow-x: auto; margin: 0 0 10px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem;
  background: var(--card); border: 1px solid var(--rule); width: 100%; }
th, td { text-align: left; padding: 7px 12px; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
tbody tr:last-child > * { border-bottom: 0; }
th { font-weight: 600; }
tbody th { min-width: 168px; overflow-wrap: anywhere; }
td.words { min-width: 150px; }
td .sub { margin-left: 0; }
thead th { color: var(--soft); font-size: .8rem; font-weight: 500; vertical-align: bottom; }
th.n, td.n { text-align: right; white-space: nowrap; }
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

.charts { display: grid; gap: 16px; margin: 0 0 10px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); }
.small { grid-template-columns: repeat(auto-fill, minmax(min(100%, 272px), 1fr)); gap: 12px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  padding: 10px 10px 6px; position: relative; break-inside: avoid; min-width: 0;
  display: flex; flex-direction: column; justify-content: space-between; }
figcaption { display: flex; flex-wrap: wrap; gap: 0 8px; align-items: baseline; margin-bottom: 6px;
  font-size: .9rem; overflow-wrap: anywhere; }
figcaption .note { flex-basis: 100%; font-size: .78rem; line-height: 1.35; }
.unit { color: var(--soft); font-size: .82rem; }
.raw { color: var(--soft); font-size: .72rem; margin-right: 6px; }
td .raw, th .raw { margin-left: 6px; font-weight: 400; }
.sub { display: block; font-size: .78rem; font-weight: 400; color: var(--soft);
  white-space: normal; overflow-wrap: anywhere; margin: 1px 0 0 18px; }
.charts svg { width: 100%; height: auto; display: block; overflow: visible; }
.tick { fill: var(--soft); font-size: 11px; }
.name, .row { font-size: 12px; fill: var(--ink); }
.name { fill: var(--c); font-weight: 600; }
.row { font-variant-numeric: tabular-nums; paint-order: stroke; stroke: var(--card);
  stroke-width: 4px; }
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
.whisker { stroke: var(--c); stroke-width: 4; opacity: .4; stroke-linecap: round; }
.area { fill: var(--c); stroke: var(--card); stroke-width: .6; }
.mini { width: 132px; height: 15px; }
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
.sheet { margin: 22px 0 8px; }
.draft > .read { padding: 8px 10px 2px; }
.draft > .did { padding: 2px 10px 6px; display: flex; flex-wrap: wrap; gap: 2px 8px; }
.episodes > .draft.on { border-color: var(--s0); border-width: 2px; }
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
.talk .reply { white-space: pre-wrap; overflow-wrap: anywhere; margin: 2px 0 6px; }
.token { margin-right: 3px; white-space: pre-wrap; } .token.control { font-style: italic; }
.anchor { font-size: .78rem; font-weight: 600; padding: 0 6px; border: 1px solid var(--soft);
  border-radius: 9px; cursor: default; }
.alone { font-size: .78rem; color: var(--soft); }
.invalid { font-size: .78rem; font-weight: 600; color: var(--s1); }
.scale { display: flex; flex-wrap: wrap; gap: 3px; align-items: center; margin: 6px 0; }
.more { padding: 4px 10px; }
.run > summary { font-weight: 600; margin: 18px 0 6px; }

@media (max-width: 1000px) {
  main > section { display: block; padding: 24px 0; }
  .side { margin-bottom: 14px; }
}
@media (max-width: 700px) {
  main, header > div, nav > ul { padding-left: 14px; padding-right: 14px; }
  header { padding: 22px 0 12px; }
  h1 { font-size: 1.45rem; }
  .stack, .stack tbody, .stack tr, .stack th, .stack td { display: block; }
  .stack { border: 0; background: none; }
  .stack thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
    clip-path: inset(50%); }
  .stack tr { background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
    margin: 0 0 12px; padding: 4px 0; }
  .stack tbody th { white-space: normal; overflow-wrap: anywhere; }
  .stack td { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 2px 14px;
    border: 0; padding: 3px 12px; text-align: right; white-space: normal; }
  .stack tbody th { border: 0; padding: 5px 12px; }
  .stack td[data-label]::before { content: attr(data-label); color: var(--soft);
    font-size: .8rem; text-align: left; }
  .stack td.words { display: block; text-align: left; }
  .stack td.words::before { display: block; }
  .charts:not(.small) .tick { font-size: 13px; }
  .charts:not(.small) :is(.name, .row) { font-size: 13.5px; }
  .stack td.metric svg { flex-basis: 100%; width: 100%; height: auto; max-height: 22px; }
}
@page { size: landscape; margin: 12mm; }
@media print {
  nav, .tip { display: none; }
  main > section { display: block; padding: 10px 0; }
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
