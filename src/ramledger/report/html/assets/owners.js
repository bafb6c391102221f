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

// variables/train.py:run.agent.log is variables > train.py > run > agent > log
function ownerParts(name) {
  const at = name.indexOf("/");
  if (at < 0) return [name];
  const head = name.slice(0, at), tail = name.slice(at + 1), colon = tail.indexOf(":");
  return head === "variables" && colon >= 0 ? [head, tail.slice(0, colon), ...tail.slice(colon + 1).split(".")] : [head, tail];
}

function ownerTree(rows) {
  const root = { name: "", size: 0, row: null, children: new Map() };
  for (const row of rows) {
    if (row.resident <= 0) continue;
    let node = root;
    node.size += row.resident;
    for (const part of ownerParts(row.name)) {
      if (!node.children.has(part)) node.children.set(part, { name: part, size: 0, row, children: new Map() });
      node = node.children.get(part);
      node.size += row.resident;
    }
  }
  return withoutChains(root);
}

// a name that holds but one other name is one with it
function withoutChains(node) {
  const children = new Map();
  for (let child of node.children.values()) {
    while (child.children.size === 1) {
      const [only] = child.children.values();
      if (only.size !== child.size) break;
      child = { ...only, name: child.name + " › " + only.name };
    }
    children.set(child.name, withoutChains(child));
  }
  return { ...node, children };
}

// the node at a path of names; as deep as it is there at this instant
function ownerAt(root, path) {
  let node = root;
  const reached = [];
  for (const name of path) {
    const next = node.children.get(name);
    if (!next || !next.children.size) break;
    reached.push(name);
    node = next;
  }
  return { node, reached };
}

function treemap(app, found) {
  const { run, state } = app;
  const { node, reached } = ownerAt(ownerTree(found.rows), app.ownerPath || []);
  const W = 1000, H = 420;
  const open = (path) => { app.ownerPath = path; app.redraw(); };
  const place = (x, y, w, height) => ({ left: (100 * x) / W + "%", top: (100 * y) / H + "%", width: (100 * w) / W + "%", height: (100 * height) / H + "%" });
  const draw = (parent, path, x, y, w, height, depth) => {
    const all = [...parent.children.values()].sort((a, b) => b.size - a.size);
    const shown = all.filter((child) => child.size > parent.size * 0.004), small = all.slice(shown.length);
    const items = shown.map((child) => ({ child, size: child.size }));
    const rest = small.reduce((sum, child) => sum + child.size, 0) + Math.max(0, parent.size - all.reduce((sum, child) => sum + child.size, 0));
    if (rest > 0) items.push({ child: { name: small.length + " smaller", size: rest, row: null, children: new Map() }, size: rest });
    return squarify(items, x, y, w, height).flatMap((tile) => ownerTile(tile, path, depth));
  };
  const ownerTile = ({ child, x, y, w, h: height }, path, depth) => {
    const inner = [...path, child.name], canOpen = child.children.size > 0;
    const nested = canOpen && depth < 1 && w > 110 && height > 70;
    const tile = h(canOpen ? "button" : "div", { type: canOpen ? "button" : null, class: "tile " + (nested ? "group" : child.row ? run.color(state.view, child.row.name) : "paint k-other"),
      "data-bytes": depth === 0 ? String(child.size) : null, onclick: canOpen ? () => open(inner) : null,
      title: inner.join(" › ") + "\n" + bytes(child.size) + ", " + share(child.size, found.rss) + (canOpen ? "\nclick to open" : child.row ? [run.meaning(child.row.name), child.row.note].filter(Boolean).map((text) => "\n" + text).join("") : ""), style: place(x, y, w, height) });
    if (nested) tile.append(h("span", { class: "group-label" }, h("b", {}, child.name), " " + bytes(child.size)));
    else if (w > 60 && height > 26) tile.append(h("span", { class: "tile-label" }, h("b", {}, child.name), height > 44 ? h("span", {}, bytes(child.size)) : null));
    return nested ? [tile, ...draw(child, inner, x + 3, y + 22, w - 6, height - 25, depth + 1)] : [tile];
  };
  const steps = reached.map((name, at) => [" › ", at === reached.length - 1 ? h("b", {}, name) : h("button", { type: "button", class: "link", onclick: () => open(reached.slice(0, at + 1)) }, name)]);
  return h("div", {}, h("p", { class: "crumbs" }, reached.length ? h("button", { type: "button", class: "link", onclick: () => open([]) }, "everything") : h("b", {}, "everything"), steps, " " + bytes(node.size) + ", " + share(node.size, found.rss) + " of RSS"),
    h("div", { class: "treemap", role: "group", "aria-label": "accounts by resident bytes" }, draw(node, reached, 0, 0, W, H, 0)));
}

function ownersSection(app) {
  const { run, state } = app;
  const snapshots = run.snapshotsOf(state.view);
  if (!snapshots.length) return null;
  const chosen = run.statementAt(state.view, state.a ?? app.peakSnapshot().t);
  const snapshot = chosen.snapshot || snapshots[snapshots.length - 1];
  const objects = snapshot.objects.length ? table(["large object", "resident", "reserved", "fill", "kind"], snapshot.objects.map((item) => [
    h("span", { class: "path", title: item.account }, item.path), bytes(item.resident), bytes(item.reserved),
    item.fill === null ? "" : [bar(item.fill), " " + Math.round(item.fill * 100) + "%"],
    [item.type.split(".").pop(), item.dtype, item.shape].filter(Boolean).join(" ")]), "Large objects at " + seconds(snapshot.t))
    : h("p", { class: "dim" }, "no single object is large enough to be listed");
  const live = snapshot.types.length ? table(["live objects", "instances", "bytes"], snapshot.types.map((row) => [
    h("span", { class: "path", title: row.name }, row.name.replace(/^__main__[.]/, "")), count(row.count), row.bytes < 65536 ? "" : bytes(row.bytes)]), "Live objects at " + seconds(snapshot.t) + ", yours and known ones first")
    : null;
  return section("owners", "Who holds what at " + seconds(chosen.t), treemap(app, chosen), objects, live, differences(app));
}

function differences(app) {
  const { run, state } = app;
  const snapshots = run.snapshotsOf(state.view);
  if (snapshots.length < 2) return null;
  const a = state.a === null ? snapshots.find((snapshot) => snapshot.generation !== null) || snapshots[0] : app.snapshotNear(state.a);
  const b = state.b === null ? snapshots[snapshots.length - 1] : app.snapshotNear(state.b);
  const [before, after] = a.t <= b.t ? [a, b] : [b, a];
  const grown = growthBetween(before, after, 4096);
  const most = Math.max(1, ...grown.accounts.map((row) => Math.abs(row.grown)));
  const name = (l) => seconds(l.t) + (l.generation === null ? "" : ", iteration " + l.generation) + (l.label ? ", " + l.label : "");
  const rows = grown.accounts.slice(0, 12).map((row) => [named(run, row.name), bytes(row.before), bytes(row.after),
    h("b", {}, delta(row.grown)), bar(Math.abs(row.grown) / most, row.grown > 0 ? "grew" : "fell")]);
  return h("div", { id: "differences" }, h("h3", {}, "What changed from " + name(before) + " to " + name(after) + ": " + delta(after.rss - before.rss)),
    h("p", { class: "dim" }, state.a === null || state.b === null ? "click the chart for instant A, shift-click (or press B) for instant B" : "between the snapshots nearest to instants A and B"),
    before === after ? h("p", {}, "the same snapshot is nearest to both instants") : h("div", { class: "columns" }, table(["account", "before", "after", "change", ""], rows),
      changeTable("live objects", grown.classes.slice(0, 8), count, (n) => (n > 0 ? "+" : "") + count(n)),
      changeTable("container", grown.containers.slice(0, 8), count, (n) => (n > 0 ? "+" : "") + count(n))));
}
