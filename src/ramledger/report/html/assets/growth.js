// The growth table of the verdict, as it is. Heat map: iteration × phase, or function × time.
const SMALL_GROWTH = 65536;

function rateText(line) {
  return [h("b", {}, delta(line.bytes_per_generation)), intervalText(line.interval_bytes)];
}

// null is a bound that two points leave open
function intervalText([low, high]) {
  if (low === null || high === null) return h("small", {}, " interval not known");
  return bytes(low) === bytes(high) ? "" : h("small", {}, " " + bytes(low) + " to " + bytes(high));
}

function growthTableSection(app) {
  const verdict = app.run.data.verdict, total = verdict && verdict.growth_total;
  if (!total) return null;
  const numbers = (line) => ({ "data-growth": String(line.growth_bytes), "data-rate": String(line.bytes_per_generation) });
  const cells = (line) => [[line === total ? h("span", { class: "path", ...numbers(line) }, line.account) : h("button", { type: "button", class: "link path", title: "show it in the chart", onclick: () => app.choose(line.account), ...numbers(line) }, line.account),
    app.run.meaning(line.account) ? h("small", { class: "meaning" }, app.run.meaning(line.account)) : null], delta(line.growth_bytes), rateText(line), line.shape,
    line.onset_generation === null ? "" : count(line.onset_generation), line.capacity_bytes === null ? "" : bytes(line.capacity_bytes),
    line.forecast_bytes === null ? "" : bytes(line.forecast_bytes), (100 * line.share).toFixed(1) + "%"];
  const planned = verdict.growth.some((line) => line.forecast_bytes !== null);
  const shown = (row) => row.filter((_, at) => planned || at !== 6);
  const heads = shown(["account", "growth", per(total.per), "shape", "since", "capacity", "at the planned end", "share"]);
  const small = verdict.growth.filter((line) => Math.abs(line.growth_bytes) < SMALL_GROWTH);
  const draw = (lines) => table(heads, lines.map((line) => shown(cells(line))), null, shown(cells(total)));
  const holder = h("div", {}, draw(app.state.allGrowth ? verdict.growth : verdict.growth.filter((line) => !small.includes(line))));
  const more = small.length && !app.state.allGrowth ? h("button", { type: "button", class: "more", onclick: (event) => { event.target.remove(); app.state.allGrowth = true; holder.replaceChildren(draw(verdict.growth)); } },
    "show " + small.length + " smaller: " + delta(small.reduce((sum, line) => sum + line.growth_bytes, 0))) : null;
  return section("growth-table", "What grew, by account", h("p", { class: "legend-line caption" }, app.run.data.growth.caption), holder, more);
}

function growthSection(app) {
  const { run } = app;
  const heat = run.data.growth.heat;
  if (!heat || !heat.columns.length) return null;
  const most = Math.max(1, ...heat.cells.flat().map(Math.abs));
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  const byTime = heat.kind === "functions";
  const label = ([from, to, begin, end]) => byTime ? seconds(begin) + " to " + seconds(end) : iterations(from, to);
  const cells = [];
  const choose = (r, c) => {
    cells.flat().forEach((cell) => { cell.tabIndex = -1; cell.classList.remove("chosen"); });
    cells[r][c].tabIndex = 0;
    cells[r][c].classList.add("chosen");
    app.state.cell = [heat.rows[r], heat.columns[c][0]];
    detail.replaceChildren(growthDetail(app, heat.rows[r], label(heat.columns[c]), heat.columns[c], heat.cells[r][c]));
  };
  const move = (event, r, c) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
    const next = cells[r + down] && cells[r + down][c + right];
    if (next && (down || right)) { next.focus(); choose(r + down, c + right); event.preventDefault(); }
  };
  const every = Math.ceil(heat.columns.length / 16);
  const grid = h("div", { class: "heat", role: "grid", style: { gridTemplateColumns: "minmax(6rem, auto) repeat(" + heat.columns.length + ", minmax(7px, 1fr)) auto" } });
  heat.rows.forEach((name, r) => {
    cells.push([]);
    grid.append(h("span", { class: "heat-name" + (r === heat.culprit ? " culprit" : ""), title: name + (r === heat.culprit ? ": the leak is here" : "") }, (r === heat.culprit ? "▲ " : "") + shortPath(name, 34)));
    heat.cells[r].forEach((size, c) => {
      const strength = Math.round(Math.sqrt(Math.abs(size) / most) * 100);
      const cell = h("button", { type: "button", class: "cell " + (size >= 0 ? "grew" : "fell") + (r === heat.culprit ? " of-culprit" : ""), tabindex: r || c ? -1 : 0, title: name + ", " + label(heat.columns[c]) + ": " + delta(size),
        "aria-label": name + ", " + label(heat.columns[c]) + ": " + delta(size), onclick: () => choose(r, c), onkeydown: (event) => move(event, r, c) });
      cell.style.setProperty("--strength", strength + "%");
      cells[r].push(cell);
      grid.append(cell);
    });
    grid.append(h("span", { class: "number heat-sum" }, delta(heat.cells[r].reduce((sum, size) => sum + size, 0))));
  });
  grid.append(h("span", {}));
  heat.columns.forEach(([from, to, begin], c) => grid.append(h("span", { class: "heat-head" }, c % every ? "" : byTime ? clock(begin, run.data.seconds) : from === to ? String(from) : from + "–" + to)));
  grid.append(h("span", {}));
  const rows = heat.cells.map((row, r) => [row.reduce((sum, size) => sum + Math.max(0, size), 0), r]);
  const worst = heat.culprit ?? rows.reduce((a, b) => (b[0] > a[0] ? b : a))[1];
  const begun = run.leak && run.leak.onset ? heat.columns.findIndex(([, to]) => to >= run.leak.onset.generation) : 0;
  const later = heat.cells[worst].slice(Math.min(Math.max(1, begun), heat.cells[worst].length - 1));
  const hottest = heat.cells[worst].lastIndexOf(Math.max(...later));
  const wide = !byTime && heat.columns.some(([first, last]) => first !== last);
  const [name, from] = app.state.cell || [];
  const row = heat.rows.indexOf(name), column = heat.columns.findIndex((one) => one[0] === from);
  if (row >= 0 && column >= 0) choose(row, column); else choose(worst, Math.max(0, hottest));
  return section("growth", { phases: "Where it grew: iteration × phase", functions: "Where it grew: function × time", generations: "When it grew: iteration by iteration" }[heat.kind],
    h("p", { class: "legend-line" }, h("span", { class: "cell grew key" }), " grew ", h("span", { class: "cell fell key" }), " shrank; darker is more, up to " + bytes(most), heat.culprit === null ? null : h("span", { class: "culprit" }, "; ▲ the leak is here, as the verdict says")),
    wide ? h("p", { class: "legend-line" }, "A column is several iterations; its label says which.") : null,
    heat.caption ? h("p", { class: "legend-line caption" }, heat.caption) : null,
    h("div", { class: "scroll" }, grid), detail);
}

function growthDetail(app, name, where, [, , from, to], size) {
  const { run } = app;
  const snapshots = run.mainSnapshots;
  const before = snapshots.filter((snapshot) => snapshot.t <= from + 1e-6).pop() || snapshots[0];
  const after = snapshots.find((snapshot) => snapshot.t >= to - 1e-6) || snapshots[snapshots.length - 1];
  const parts = [h("h3", {}, name + ", " + where + ": " + delta(size))];
  const functions = new Map();
  for (const [t, rows] of run.data.growth.functions) {
    if (t >= from && t <= to + (to - from)) for (const [n, grown] of rows) functions.set(run.names[n], (functions.get(run.names[n]) || 0) + grown);
  }
  if (before && after && before !== after) {
    const grown = growthBetween(before, after, 65536);
    parts.push(h("p", { class: "legend-line" }, "between the snapshots at " + seconds(before.t) + " and " + seconds(after.t)
      + (run.data.growth.by_generation ? " (iteration " + [before, after].map((snapshot) => snapshot.generation ?? "start").join(" → ") + ")" : "")));
    parts.push(h("div", { class: "columns" },
      changeTable("account", grown.accounts.slice(0, 6), bytes, delta, run),
      changeTable("live objects", grown.classes.slice(0, 6), count, (n) => (n > 0 ? "+" : "") + count(n)),
      changeTable("container", grown.containers.slice(0, 6), count, (n) => (n > 0 ? "+" : "") + count(n)),
      functions.size ? table(["function", "grew meanwhile"], [...functions].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([n, b]) => [h("span", { class: "path" }, n), delta(b)])) : null));
  } else parts.push(h("p", { class: "dim" }, "there are no two snapshots around it"));
  return h("div", {}, parts);
}

function changeTable(head, rows, format, change, run) {
  if (!rows.length) return null;
  return table([head, "before", "after", "change"], rows.map((row) =>
    [run ? named(run, row.name) : h("span", { class: "path", title: row.name }, row.name), format(row.before), format(row.after), h("b", {}, change(row.grown))]));
}
