// Memory over time, or its growth since the first iteration: stacked accounts, phases, iterations, onset, limit, peak, forecast.
const MARGIN = { left: 68, right: 26, top: 26, bottom: 40 };

class Chart {
  constructor(app) {
    this.app = app;
    this.svg = s("svg", { class: "chart", tabindex: "0", role: "application",
      "aria-label": "Memory over time. Arrow keys move the instant, Enter sets instant A, B sets instant B, plus and minus zoom, 0 shows all." });
    this.drag = null;
    this.svg.addEventListener("pointermove", (event) => this.moved(event));
    this.svg.addEventListener("pointerdown", (event) => this.pressed(event));
    this.svg.addEventListener("pointerup", (event) => this.released(event));
    this.svg.addEventListener("pointerleave", () => { if (!this.drag) this.app.hover(null); });
    this.svg.addEventListener("dblclick", () => this.app.zoom(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  // Where growth is counted from; null where all memory is shown.
  get start() {
    const { run, state } = this.app;
    return state.growth ? run.baseline(state.view) : null;
  }

  domain() {
    const { run, state } = this.app, start = this.start;
    if (state.zoom) return state.zoom;
    const runs = state.overlay && !start ? this.app.runs : [run];
    const end = Math.min(this.end(start), Math.max(1e-3, ...runs.map((one) => one.data.seconds)));
    return [start ? start.t : 0, end + this.ahead(end)];
  }

  // What is freed after the training is no growth of it.
  end(start) {
    const { data } = this.app.run, last = data.growth.generations[data.growth.generations.length - 1];
    return start && data.is_over && last && last[1] > start.t ? last[1] : Infinity;
  }

  // How much of the future fits on the page.
  ahead(end) {
    const outlook = this.app.run.data.outlook;
    if (!outlook || outlook.seconds_left === null || !outlook.draw) return 0;
    const needed = outlook.from_t - end + outlook.seconds_left * 1.1;
    return Math.max(0, needed <= end ? needed : 0.25 * end);
  }

  draw() {
    const { run, state } = this.app;
    const width = Math.max(280, this.svg.clientWidth || 800);
    const height = width < 560 ? 300 : 380;
    const [from, to] = this.domain();
    const points = run.points(state.view), start = this.start, log = state.log && !start;
    const shown = run.bands(state.view).filter((band) => !state.off.has(band.name));
    const inside = points.map((p, i) => i).filter((i) => points[i].t >= Math.max(from, start ? start.t : 0) - 1e-9 && points[i].t <= Math.min(to, this.end(start)) + 1e-9);
    if (inside.length && inside[0] > 0 && !start) inside.unshift(inside[0] - 1);
    // of growth the culprit stands on the axis, and what hardly moves at the far end
    const stacked = start ? [...shown.filter((band) => !band.isConstant && band.name !== BETWEEN), ...shown.filter((band) => band.isConstant || band.name === BETWEEN)] : shown;
    const layers = this.layers(stacked, inside, start);
    const scale = this.scale(layers, points, inside, start, to);
    this.base = start ? start.rss : 0;
    this.x = (t) => MARGIN.left + ((t - from) / (to - from)) * (width - MARGIN.left - MARGIN.right);
    this.t = (x) => from + ((x - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (to - from);
    const floor = height - MARGIN.bottom, low = log ? Math.max(1 << 16, scale.top / 4096) : 0;
    this.y = log
      ? (b) => floor - (Math.log(Math.max(b, low) / low) / Math.log(scale.top / low)) * (floor - MARGIN.top)
      : (b) => floor - ((b - scale.bottom) / (scale.top - scale.bottom)) * (floor - MARGIN.top);
    this.height = height; this.width = width; this.floor = floor;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.style.height = height + "px";
    this.svg.replaceChildren(
      s("defs", {}, s("clipPath", { id: "plot" }, s("rect", { x: MARGIN.left, y: 0, width: width - MARGIN.left - MARGIN.right, height: floor }))),
      this.axes(from, to, scale, low), this.phases(from, to),
      s("g", { "clip-path": "url(#plot)" },
        log ? this.lines(shown, points, inside) : this.areas(layers, points, inside),
        this.total(points, inside, shown, start), this.envelope(), this.forecast(run.data.outlook, run.data.limit), this.overlay(start),
        state.reserved && !start ? s("path", { class: "reserved", d: this.path(this.reserved()) }) : null),
      log ? "" : this.labels(layers, points, inside), this.limitLine(run.data.limit, scale.showsLimit), this.onset(from, to), this.peak(from, to), this.snapshotMarks(from, to),
      (this.cursor = s("g", { class: "cursor" })));
    this.drawCursor();
  }

  // Each band from its lower to its upper edge: what shrank since the start is stacked below zero.
  layers(shown, inside, start) {
    const up = inside.map(() => 0), down = inside.map(() => 0);
    const stack = (band, base, sign) => inside.map((i, k) => {
      const size = Math.max(0, sign * (band.values[i] - base));
      if (sign > 0) return [up[k], (up[k] += size)];
      return [(down[k] -= size), down[k] + size];
    });
    return shown.map((band) => ({ band, parts: [1, -1].map((sign) => stack(band, start ? band.base : 0, sign)).filter((edges) => edges.some(([low, high]) => high > low)) }));
  }

  scale(layers, points, inside, start, to) {
    const { run, state } = this.app, { limit, outlook, peak } = run.data, base = start ? start.rss : 0;
    const edges = layers.flatMap((layer) => layer.parts.flat());
    let bottom = Math.min(0, ...edges.map((edge) => edge[0]));
    let top = Math.max(1, ...edges.map((edge) => edge[1]), ...(state.reserved && !start ? this.reserved().map((p) => p[1]) : []));
    if (!state.off.size) top = Math.max(top, ...inside.map((i) => points[i].rss - base), !state.zoom && !start && state.view === TREE ? peak.bytes : 0);
    if (state.overlay) top = Math.max(top, ...this.otherPoints(start).map((p) => p[1]));
    const reaches = outlook && outlook.draw && outlook.from_t + outlook.seconds_left <= to;
    const showsLimit = limit && (limit.bytes - base < 1.7 * top || reaches);
    if (showsLimit) top = Math.max(top, limit.bytes - base);
    const room = 0.06 * (top - bottom);
    top += room;
    if (bottom < 0) bottom -= room / 2;
    return { bottom, top, showsLimit };
  }

  path(pairs) {
    return pairs.map(([t, b], at) => (at ? "L" : "M") + this.x(t).toFixed(1) + " " + this.y(b).toFixed(1)).join("");
  }

  areas(layers, points, inside) {
    const { chosen } = this.app.state;
    return layers.map(({ band, parts }) => {
      const side = (edges, which) => edges.map((edge, k) => [points[inside[k]].t, edge[which]]);
      const d = parts.map((edges) => this.path(side(edges, 1)) + this.path(side(edges, 0).reverse()).replace("M", "L") + "Z").join("");
      return s("path", { class: "band " + band.color + (chosen && chosen !== band.name ? " faded" : ""), d, "data-band": band.name },
        s("title", {}, [band.name, this.app.run.meaning(band.name)].filter(Boolean).join(": ")));
    });
  }

  // The name in its band, as far right as it fits between both edges.
  labels(layers, points, inside) {
    const xs = inside.map((i) => this.x(points[i].t));
    return s("g", { class: "names", "aria-hidden": "true" }, layers.filter(({ parts }) => parts.length).map(({ band, parts: [edges] }) => {
      const text = shortPath(band.name, this.width < 560 ? 22 : 40), length = 6.6 * text.length;
      for (let right = xs[xs.length - 1] - 6; right - length > MARGIN.left; right -= 24) {
        const under = edges.filter((_, k) => xs[k] >= right - length - 8 && xs[k] <= right + 8);
        const top = Math.max(...under.map((edge) => this.y(edge[1]))), bottom = Math.min(...under.map((edge) => this.y(edge[0])));
        if (under.length > 1 && bottom - top >= 15) return s("text", { x: right, y: (top + bottom) / 2 + 4, "text-anchor": "end" }, text);
      }
      return null;
    }));
  }

  lines(shown, points, inside) {
    return shown.map((band) => s("path", { class: "line " + band.color, "data-band": band.name,
      d: this.path(inside.filter((i) => band.values[i] > 0).map((i) => [points[i].t, band.values[i]])) }));
  }

  total(points, inside, shown, start) {
    const sum = (i) => shown.reduce((all, band) => all + band.values[i] - (start ? band.base : 0), 0);
    const partly = this.app.state.off.size && !this.app.state.log;
    return s("path", { class: "total", d: this.path(inside.map((i) => [points[i].t, partly ? sum(i) : points[i].rss - this.base])) });
  }

  envelope() {
    const { run, state } = this.app, start = this.start;
    if (state.view !== TREE || state.off.size) return null;
    const { t, high, level } = run.series;
    const pairs = t.map((at, i) => [at, high[i] - this.base]).filter((pair) => !start || (pair[0] >= start.t && pair[0] <= this.end(start)));
    return high.some((b, i) => b > level[i] * 1.01) ? s("path", { class: "high", d: this.path(pairs) }) : null;
  }

  reserved() {
    const own = ["claim", "recognized", "path"];
    return this.app.run.snapshotsOf(this.app.state.view).map((snapshot) => [snapshot.t, snapshot.rss + snapshot.rows.reduce((sum, row) =>
      sum + (own.includes(row.source) ? Math.max(0, row.reserved - row.resident) : 0), 0)]);
  }

  // The other run: of growth, from its own first iteration on.
  otherPoints(start) {
    const { other } = this.app;
    const points = other.points(TREE), first = other.baseline(TREE);
    return start && first ? points.filter((p) => p.t >= first.t).map((p) => [p.t - first.t + start.t, p.rss - first.rss]) : points.map((p) => [p.t, p.rss]);
  }

  overlay(start) {
    return this.app.state.overlay && this.app.other ? s("path", { class: "overlay", d: this.path(this.otherPoints(start)) }) : null;
  }

  forecast(outlook, limit) {
    if (!outlook || !outlook.draw || outlook.seconds_left === null || this.app.state.view !== TREE || !limit) return null;
    const start = [outlook.from_t, outlook.from_bytes - this.base];
    const at = (left) => [outlook.from_t + left, limit.bytes - this.base];
    const low = outlook.low_seconds ?? outlook.seconds_left, high = outlook.high_seconds ?? outlook.seconds_left * 3;
    return s("g", {}, s("path", { class: "cone", d: this.path([start, at(low), at(high), start]) }),
      s("path", { class: "forecast", d: this.path([start, at(outlook.seconds_left)]) }));
  }

  axes(from, to, { bottom, top }, low) {
    const ticks = low
      ? [...Array(12).keys()].map((k) => Math.pow(4, k) * (1 << 16)).filter((b) => b >= low && b <= top) : byteTicks(bottom, top, 5);
    const times = timeTicks(from, to, Math.max(2, Math.floor(this.width / 90)));
    const right = this.width - MARGIN.right;
    return s("g", { class: "axes" },
      ticks.map((b) => [s("line", { x1: MARGIN.left, x2: right, y1: this.y(b), y2: this.y(b) }),
        s("text", { x: MARGIN.left - 8, y: this.y(b) + 4, "text-anchor": "end" }, b ? (this.start ? delta(b) : bytes(b)).replace(".0 ", " ") : "0")]),
      times.map((t) => [s("line", { class: "tick", x1: this.x(t), x2: this.x(t), y1: this.floor + 14, y2: this.floor + 18 }),
        s("text", { x: this.x(t), y: this.floor + 31, "text-anchor": "middle" }, clock(t, to - from))]));
  }

  // A strip below the plot: phases, with ticks where iterations end.
  phases(from, to) {
    const { run } = this.app;
    const { bands, generations } = run.data.growth;
    const order = [...new Set(bands.map((band) => band[2]))], leak = run.culpritPhase;
    const clip = (t) => Math.min(this.width - MARGIN.right, Math.max(MARGIN.left, this.x(t)));
    const group = s("g", { class: "phases" });
    for (const [begin, end, name] of bands) {
      if (end < from || begin > to) continue;
      const x = clip(begin), w = clip(end) - x;
      group.append(s("rect", { class: run.names[name] === leak ? "p-culprit" : "p" + (order.indexOf(name) % 6), x, y: this.floor + 1, width: Math.max(0.5, w - 0.5), height: 12 },
        s("title", {}, run.names[name])));
      if (w > 7 * run.names[name].length + 4) group.append(s("text", { x: x + w / 2, y: this.floor + 10.5, "text-anchor": "middle" }, run.names[name]));
    }
    const visible = generations.filter((row) => row[1] >= from && row[1] <= to);
    const every = Math.ceil(visible.length / Math.max(1, this.width / 12));
    visible.forEach((row, at) => { if (at % every === 0) group.append(s("line", { class: "iteration", x1: clip(row[1]), x2: clip(row[1]), y1: this.floor - 4, y2: this.floor + 14 })); });
    return group;
  }

  limitLine(limit, isNear) {
    if (!limit) return null;
    const words = "limit " + bytes(limit.bytes) + " (" + limit.source + ")" + (this.base && this.width > 560 ? ", " + bytes(limit.bytes - this.base) + " more" : "");
    if (!isNear) return s("g", { class: "limit" }, s("text", { x: MARGIN.left + 6, y: 12 }, "↑ " + words));
    const y = this.y(limit.bytes - this.base);
    return s("g", { class: "limit" }, s("line", { x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y }), s("text", { x: MARGIN.left + 6, y: y - 5 }, words));
  }

  onset(from, to) {
    const onset = this.app.run.leak && this.app.run.leak.onset;
    if (!onset || onset.t > to) return null;
    const x = this.x(Math.max(from, onset.t)), left = x > this.width - 170, { limit } = this.app.run.data;
    const isTaken = limit && Math.abs(this.y(limit.bytes - this.base) - MARGIN.top - 18) < 26;
    return s("g", { class: "onset" }, s("line", { x1: x, x2: x, y1: MARGIN.top, y2: this.floor }),
      s("text", { x: x + (left ? -5 : 5), y: MARGIN.top + (isTaken ? 62 : 24), "text-anchor": left ? "end" : "start" }, "leaks since iteration " + onset.generation));
  }

  peak(from, to) {
    const { run, state } = this.app;
    const peak = run.data.peak;
    if (state.view !== TREE || state.off.size || !peak.bytes || peak.t < from || peak.t > to) return null;
    const x = this.x(peak.t), y = this.y(peak.bytes - this.base), left = x > MARGIN.left + 120;
    return s("g", { class: "peak" }, s("path", { d: `M${x - 5} ${y - 9}L${x + 5} ${y - 9}L${x} ${y - 1}Z` }),
      s("text", { x: x + (left ? -9 : 9), y: y - 4, "text-anchor": left ? "end" : "start" }, "peak " + bytes(peak.bytes)));
  }

  snapshotMarks(from, to) {
    const { run, state } = this.app;
    const snapshots = run.snapshotsOf(state.view).filter((snapshot) => snapshot.t >= from && snapshot.t <= to);
    const every = Math.ceil(snapshots.length / Math.max(1, this.width / 9));
    return s("g", { class: "snapshots" }, snapshots.filter((snapshot, at) => at % every === 0).map((snapshot) =>
      s("circle", { cx: this.x(snapshot.t), cy: this.floor - 3, r: 3, onclick: (event) => { event.stopPropagation(); this.app.pin("a", snapshot.t); } },
        s("title", {}, "detailed snapshot at " + seconds(snapshot.t) + (snapshot.label ? ": " + snapshot.label : "")))));
  }

  drawCursor() {
    if (!this.cursor) return;
    const { state } = this.app;
    const mark = (t, kind, name) => t === null ? null : [
      s("line", { class: kind, x1: this.x(t), x2: this.x(t), y1: MARGIN.top, y2: this.floor }),
      name ? s("text", { class: kind, x: this.x(t) + 3, y: MARGIN.top + 9 }, name) : null];
    const drag = this.drag && this.drag.to !== null
      ? s("rect", { class: "drag", x: Math.min(this.drag.from, this.drag.to), y: MARGIN.top, width: Math.abs(this.drag.to - this.drag.from), height: this.floor - MARGIN.top }) : null;
    fill((this.cursor.replaceChildren(), this.cursor), {}, [mark(state.a, "pin", "A"), mark(state.b, "pin", "B"), mark(state.hover, "now", ""), drag]);
  }

  // ---- pointer and keys ----
  at(event) {
    const box = this.svg.getBoundingClientRect();
    return ((event.clientX - box.left) / Math.max(1, box.width)) * this.width;
  }

  snapped(x) {
    const point = this.app.run.nearest(this.app.state.view, this.t(x));
    return point ? point.t : null;
  }

  moved(event) {
    const x = this.at(event);
    if (this.drag && event.pointerType !== "touch") {
      this.drag.to = Math.abs(x - this.drag.from) > 4 ? x : null;
      this.drawCursor();
    }
    this.app.hover(this.snapped(x));
  }

  pressed(event) {
    if (event.button !== 0 || event.target.closest(".snapshots")) return;
    this.drag = { from: this.at(event), to: null, shift: event.shiftKey };
    if (event.pointerType !== "touch") this.svg.setPointerCapture(event.pointerId);
  }

  released() {
    const drag = this.drag;
    this.drag = null;
    if (!drag) return;
    if (drag.to === null) return this.app.pin(drag.shift ? "b" : "a", this.snapped(drag.from));
    const [from, to] = [this.t(Math.min(drag.from, drag.to)), this.t(Math.max(drag.from, drag.to))];
    if (to > from) this.app.zoom([Math.max(0, from), to]);
  }

  key(event) {
    const { run, state } = this.app;
    const points = run.points(state.view);
    if (!points.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.domain();
    const now = state.hover ?? state.a ?? points[points.length - 1].t;
    const index = points.findIndex((point) => point.t >= now - 1e-9);
    const step = event.shiftKey ? 10 : 1;
    const middle = (factor) => { const half = ((to - from) * factor) / 2; return [Math.max(0, now - half), now + half]; };
    const moves = { ArrowLeft: index - step, ArrowRight: index + step, Home: 0, End: points.length - 1 };
    if (event.key in moves) this.app.hover(points[Math.max(0, Math.min(points.length - 1, moves[event.key]))].t);
    else if (event.key === "Enter") this.app.pin("a", now);
    else if (event.key === "b" || event.key === "B") this.app.pin("b", now);
    else if (event.key === "+" || event.key === "=") this.app.zoom(middle(0.5));
    else if (event.key === "-") this.app.zoom(to - from > run.data.seconds / 2 ? null : middle(2));
    else if (event.key === "0" || event.key === "Escape") this.app.zoom(null);
    else return;
    event.preventDefault();
  }
}
