// Live instances over time for classes that matter, with what was expected; growing containers.
function sparkline(pairs, options) {
  const { width = 220, height = 56, from, to, top, band, low = 0 } = options;
  const x = (t) => ((t - from) / Math.max(1e-9, to - from)) * width;
  const y = (v) => height - 2 - ((v - low) / Math.max(1e-9, top - low)) * (height - 6);
  const d = pairs.map(([t, v], at) => (at ? "L" : "M") + x(t).toFixed(1) + " " + y(v).toFixed(1)).join("");
  const area = pairs.length ? d + "L" + x(pairs[pairs.length - 1][0]).toFixed(1) + " " + height + "L" + x(pairs[0][0]).toFixed(1) + " " + height + "Z" : "";
  return s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    band === undefined ? null : s("rect", { class: "expected", x: 0, width, y: y(band), height: Math.max(1, height - y(band)) }),
    s("path", { class: "spark-area", d: area }), s("path", { class: "spark-line", d }));
}

function objectsSection(app) {
  const { run } = app;
  const snapshots = run.mainSnapshots;
  if (snapshots.length < 2) return null;
  const expected = new Map(run.data.expectations.map((e) => [e.type, e]));
  const expectedOf = (name) => expected.get(name) || expected.get(name.split(".").pop());
  const user = new Set(snapshots.flatMap((snapshot) => [...snapshot.user]));
  const names = [...new Set(snapshots.flatMap((snapshot) => [...snapshot.counts.keys()]))];
  const series = names.map((name) => ({ name, pairs: snapshots.filter((snapshot) => snapshot.counts.has(name)).map((snapshot) => [snapshot.t, snapshot.counts.get(name)]) }))
    .filter(({ pairs }) => pairs.length > 1).map((one) => ({ ...one, first: one.pairs[0][1], last: one.pairs[one.pairs.length - 1][1] }));
  const interest = (one) => (expectedOf(one.name) ? 1e9 : 0) + (user.has(one.name) ? 100 : 1) * ((one.last - one.first) / Math.max(1, one.first));
  const shown = series.filter((one) => interest(one) > 0.5).sort((a, b) => interest(b) - interest(a)).slice(0, 8);
  const [from, to] = [snapshots[0].t, snapshots[snapshots.length - 1].t];
  const cards = shown.map((one) => {
    const hope = expectedOf(one.name);
    const top = Math.max(1, ...one.pairs.map((pair) => pair[1]), hope ? hope.expected : 0);
    return h("figure", { class: "small" + (hope && one.last > hope.expected ? " bad" : "") }, h("figcaption", {}, h("span", { class: "path", title: one.name }, one.name),
      h("span", {}, count(one.first) + " → " + count(one.last))), sparkline(one.pairs, { from, to, top, band: hope ? hope.expected : undefined }),
      hope ? h("small", {}, (one.last > hope.expected ? "more than the " : "at most ") + count(hope.expected) + " expected") : null);
  });
  const lengths = new Map();
  for (const snapshot of snapshots) for (const c of snapshot.containers) lengths.set(c.path, [...(lengths.get(c.path) || []), [snapshot.t, c.length, c]]);
  const containers = [...lengths.entries()].filter(([, rows]) => rows.length > 1 && rows[rows.length - 1][1] > rows[0][1])
    .sort((a, b) => b[1][b[1].length - 1][1] - b[1][0][1] - (a[1][a[1].length - 1][1] - a[1][0][1])).slice(0, 10);
  const worst = new Map();
  for (const e of run.data.expectations) {
    const other = worst.get(e.type);
    if (!other || Math.abs(e.found - e.expected) > Math.abs(other.found - other.expected)) worst.set(e.type, e);
  }
  const broken = [...worst.values()];
  if (!cards.length && !containers.length && !broken.length) return null;
  return section("objects", "Objects and containers that grow",
    broken.map((e) => h("p", { class: "warning" }, "expected otherwise: " + e.text)),
    h("div", { class: "multiples" }, cards),
    containers.length ? table(["container", "first", "last", "over time", "of"], containers.map(([path, rows]) => [h("span", { class: "path", title: path }, path), count(rows[0][1]), count(rows[rows.length - 1][1]),
      sparkline(rows, { width: 120, height: 24, from, to, top: Math.max(...rows.map((row) => row[1])) }), shortPath(rows[0][2].of || rows[0][2].type, 40)])) : null);
}
