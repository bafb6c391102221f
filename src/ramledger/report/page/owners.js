// Who holds what at the chosen instant: a treemap of accounts, large objects, and A against B.
function squarify(items, x, y, w, hgt) {
  const placed = [];
  let rest = items.filter((item) => item.size > 0);
  let total = rest.reduce((sum, item) => sum + item.size, 0);
  while (rest.length && w > 0.01 && hgt > 0.01) {
    const along = Math.min(w, hgt), area = (w * hgt) / total;
    let row = [], sum = 0, worst = Infinity;
    for (const item of rest) {
      const next = sum + item.size, side = (next * area) / along;
      const ratio = Math.max(...[...row, item].map((one) => { const other = (one.size * area) / side; return Math.max(side / other, other / side); }));
      if (row.length && ratio > worst) break;
      row.push(item); sum = next; worst = ratio;
    }
    const side = (sum * area) / along;
    let at = 0;
    for (const item of row) {
      const length = (item.size / sum) * along;
      placed.push(w >= hgt ? { ...item, x, y: y + at, w: side, h: length } : { ...item, x: x + at, y, w: length, h: side });
      at += length;
    }
    if (w >= hgt) { x += side; w -= side; } else { y += side; hgt -= side; }
    rest = rest.slice(row.length);
    total -= sum;
  }
  return placed;
}

function treemap(app, found) {
  const { run, state } = app;
  const color = new Map(run.bands(state.view).map((band) => [band.name, band.color]));
  const rows = found.rows.filter((row) => row.resident > found.rss * 0.002);
  const small = found.rows.filter((row) => row.resident <= found.rss * 0.002);
  if (small.length) rows.push({ name: small.length + " smaller accounts", resident: small.reduce((sum, row) => sum + row.resident, 0) });
  const W = 1000, H = 420;
  const tiles = squarify(rows.map((row) => ({ row, size: row.resident })), 0, 0, W, H);
  return h("div", { class: "treemap", role: "img", "aria-label": "accounts by resident bytes" }, tiles.map(({ row, x, y, w, h: height }) => {
    const tile = h("div", { class: "tile " + (color.get(run.bandName(state.view, row.name)) || "c-other"), title: row.name + "\n" + bytes(row.resident) + ", " + share(row.resident, found.rss) + (row.note ? "\n" + row.note : ""),
      style: { left: (100 * x) / W + "%", top: (100 * y) / H + "%", width: (100 * w) / W + "%", height: (100 * height) / H + "%" } });
    if (w > 60 && height > 26) tile.append(h("span", { class: "tile-label" }, h("b", {}, row.name), height > 44 ? h("span", {}, bytes(row.resident)) : null));
    return tile;
  }));
}

function ownersSection(app) {
  const { run, state } = app;
  const looks = run.looksOf(state.view);
  if (!looks.length) return null;
  const chosen = run.statementAt(state.view, state.a ?? app.peakLook().t);
  const look = chosen.look || looks[looks.length - 1];
  const objects = look.objects.length ? table(["large object", "resident", "reserved", "fill", "kind"], look.objects.map((item) => [
    h("span", { class: "path", title: item.account }, item.path), bytes(item.resident), bytes(item.reserved),
    item.fill === null ? "" : [bar(item.fill), " " + Math.round(item.fill * 100) + "%"],
    [item.type.split(".").pop(), item.dtype, item.shape].filter(Boolean).join(" ")]), "Large objects at " + seconds(look.t))
    : h("p", { class: "dim" }, "no single object is large enough to be listed");
  return section("owners", "Who holds what at " + seconds(chosen.t), treemap(app, chosen), objects, differences(app));
}

function differences(app) {
  const { run, state } = app;
  const looks = run.looksOf(state.view);
  if (looks.length < 2) return null;
  const a = state.a === null ? looks.find((look) => look.generation !== null) || looks[0] : app.lookNear(state.a);
  const b = state.b === null ? looks[looks.length - 1] : app.lookNear(state.b);
  const [before, after] = a.t <= b.t ? [a, b] : [b, a];
  const grown = growthBetween(before, after, 4096);
  const most = Math.max(1, ...grown.accounts.map((row) => Math.abs(row.grown)));
  const name = (l) => seconds(l.t) + (l.generation === null ? "" : ", generation " + l.generation) + (l.label ? ", " + l.label : "");
  const rows = grown.accounts.slice(0, 12).map((row) => [h("span", { class: "path", title: row.name }, row.name), bytes(row.before), bytes(row.after),
    h("b", {}, delta(row.grown)), bar(Math.abs(row.grown) / most, row.grown > 0 ? "grew" : "fell")]);
  return h("div", { id: "differences" }, h("h3", {}, "What changed from " + name(before) + " to " + name(after) + ": " + delta(after.rss - before.rss)),
    h("p", { class: "dim" }, state.a === null || state.b === null ? "click the chart for instant A, shift-click (or press B) for instant B" : "between the looks nearest to A and B"),
    before === after ? h("p", {}, "A and B are the same look") : h("div", { class: "columns" }, table(["account", "before", "after", "change", ""], rows),
      changeTable("live objects", grown.classes.slice(0, 8), count, (n) => (n > 0 ? "+" : "") + count(n)),
      changeTable("container", grown.containers.slice(0, 8), count, (n) => (n > 0 ? "+" : "") + count(n))));
}
