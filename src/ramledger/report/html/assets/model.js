// A run: its series, its snapshots, and the statement at any instant. Rows always sum to RSS.
const TREE = "tree";
const BETWEEN = "not attributed yet";
const WORKERS = "other processes";
const OTHERS = "other accounts";
const UNEXPLAINED = "unexplained";
const CONSTANT = "constant accounts";
const SOON_PART = 0.1; // of the run
const MAX_BANDS = 9, MAX_CONSTANTS = 12;
const LEAST_CHANGE = 1 << 20, LEAST_CHANGE_PART = 0.01; // of the peak: below both, an account is constant
const MEANINGS = {
  [BETWEEN]: "measured, but no snapshot says yet who holds it", [WORKERS]: "all but the process that trains",
  [OTHERS]: "smaller accounts that change", [CONSTANT]: "accounts that stay as they are" };

class Run {
  constructor(data) {
    this.data = data;
    this.names = data.names;
    this.snapshots = new Map();
    for (const snapshot of data.snapshots) {
      if (!this.snapshots.has(snapshot.pid)) this.snapshots.set(snapshot.pid, []);
      this.snapshots.get(snapshot.pid).push(this.read(snapshot));
    }
    this.series = data.series;
    this.main = data.main_pid;
    this.cache = new Map();
  }

  read(snapshot) {
    const name = (number) => this.names[number];
    const rows = snapshot.accounts.map(([n, resident, reserved, filled, objects, source, note]) => ({
      name: name(n), resident, reserved, fill: filled, objects, source: name(source), note: name(note) }));
    rows.push({ name: UNEXPLAINED, resident: snapshot.unexplained, reserved: 0, fill: null, note: "" });
    return {
      ...snapshot, rows,
      objects: snapshot.objects.map(([path, type, dtype, shape, resident, reserved, filled, account]) => ({
        path: name(path), type: name(type), dtype: name(dtype), shape: name(shape), resident, reserved,
        fill: filled, account: name(account) })),
      user: new Set(snapshot.user.map(name)),
      counts: new Map(snapshot.counts.map(([n, c]) => [name(n), c])),
      ranks: new Map(snapshot.counts.map(([n, , rank]) => [name(n), rank])),
      types: snapshot.types.map(([n, c, size]) => ({ name: name(n), count: c, bytes: size })),
      containers: snapshot.containers.map(([path, type, length, of, size]) => ({
        path: name(path), type: name(type), length, of: name(of), bytes: size })),
      totals: totals(rows),
    };
  }

  get pids() { return Object.keys(this.series.processes).map(Number); }
  snapshotsOf(view) { return this.snapshots.get(view === TREE ? this.main : view) || []; }
  get mainSnapshots() { return this.snapshotsOf(TREE); }

  // {t, rss, own}: of a tree, `own` is the process that trains.
  points(view) {
    const key = "points" + view;
    if (this.cache.has(key)) return this.cache.get(key);
    const { t, level, main, step, processes } = this.series;
    let points;
    if (view === TREE) {
      points = t.map((at, i) => ({ t: at, rss: level[i], own: Math.min(main[i], level[i]), i }));
    } else {
      const column = processes[view] || { from: 0, bytes: [] };
      points = column.bytes.map((rss, k) => ({ t: t[(column.from + k) * step], rss, own: rss }))
        .filter((point) => point.t !== undefined);
    }
    this.cache.set(key, points);
    return points;
  }

  nearest(view, t) {
    const points = this.points(view);
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle].t < t) low = middle; else high = middle;
    }
    if (!points.length) return null;
    return t - points[low].t <= points[high].t - t ? points[low] : points[high];
  }

  // The snapshots around an instant, and how far between them it is.
  around(view, t) {
    const snapshots = this.snapshotsOf(view);
    const after = snapshots.findIndex((snapshot) => snapshot.t >= t);
    if (!snapshots.length) return null;
    if (after === 0) return { before: null, after: snapshots[0], part: 1 };
    if (after < 0) return { before: snapshots[snapshots.length - 1], after: null, part: 0 };
    const before = snapshots[after - 1];
    return { before, after: snapshots[after], part: (t - before.t) / Math.max(1e-9, snapshots[after].t - before.t) };
  }

  // Accounts at a point: between two snapshots a straight line, never more than was measured.
  accountsAt(view, point) {
    const around = this.around(view, point.t);
    const sums = new Map();
    if (around && around.before) {
      const { before, after, part } = around;
      const names = new Set([...before.totals.keys(), ...(after ? after.totals.keys() : [])]);
      for (const name of names) {
        const from = before.totals.get(name) || 0;
        const to = after ? after.totals.get(name) || 0 : from;
        sums.set(name, from + (to - from) * part);
      }
    }
    let total = 0;
    for (const size of sums.values()) total += size;
    const factor = total > point.own && total > 0 ? point.own / total : 1;
    let booked = 0;
    for (const [name, size] of sums) {
      const whole = Math.floor(size * factor);
      sums.set(name, whole);
      booked += whole;
    }
    if (point.own > booked) sums.set(BETWEEN, point.own - booked);
    if (point.rss > point.own) sums.set(WORKERS, point.rss - point.own);
    return sums;
  }

  statementAt(view, t) {
    const snapshots = this.snapshotsOf(view);
    const exact = snapshots.find((snapshot) => Math.abs(snapshot.t - t) < 1e-6);
    const point = this.nearest(view, t);
    if (exact) {
      const rows = exact.rows.filter((row) => row.resident || row.reserved);
      const others = view === TREE && point ? point.rss - point.own : 0;
      if (others > 0) rows.push({ name: WORKERS, resident: others, reserved: 0, fill: null, note: "" });
      return { t: exact.t, rss: exact.rss + Math.max(0, others), rows: sorted(rows), snapshot: exact, exact: true };
    }
    if (!point) return { t, rss: 0, rows: [], snapshot: null, exact: false };
    const around = this.around(view, point.t);
    const nearest = !around ? null : !around.before ? around.after : !around.after ? around.before
      : around.part < 0.5 ? around.before : around.after;
    const known = new Map(nearest ? nearest.rows.map((row) => [row.name, row]) : []);
    const rows = [...this.accountsAt(view, point)].filter(([, size]) => size > 0).map(([name, resident]) => {
      const row = known.get(name) || {};
      return { name, resident, reserved: row.reserved || 0, fill: row.fill ?? null, note: row.note || "" };
    });
    return { t: point.t, rss: point.rss, rows: sorted(rows), snapshot: nearest, exact: false, around };
  }

  placeAt(t) {
    const generation = this.data.growth.generations.find((row) => row[1] >= t);
    const band = this.data.growth.bands.find((row) => row[0] <= t && t <= row[1]);
    return [generation ? "iteration " + generation[0] : "", band ? this.names[band[2]] : ""].filter(Boolean).join(", ");
  }

  get leak() { return this.data.leaks[0] || null; }
  get culprit() { return this.leak ? this.leak.account : ""; }
  get culpritPhase() {
    const heat = this.data.growth.heat;
    return heat && heat.culprit !== null ? heat.rows[heat.culprit] : "";
  }
  meaning(account) { return this.data.meanings[account] || MEANINGS[account] || ""; }

  // From where growth is counted, {t, rss, totals}: the first snapshot after the first iteration if that comes soon,
  // else the end of that iteration, with accounts as they are interpolated there; null without samples.
  baseline(view) {
    const key = "baseline" + view;
    if (!this.cache.has(key)) this.cache.set(key, this.firstLevel(view));
    return this.cache.get(key);
  }

  firstLevel(view) {
    const [first] = this.data.growth.generations, snapshots = this.snapshotsOf(view);
    const begin = Math.max(first ? first[1] : 0, snapshots.length ? snapshots[0].t : 0);
    const next = snapshots.find((snapshot) => snapshot.t >= begin);
    const isSoon = next && next.t - begin <= SOON_PART * this.data.seconds;
    const point = isSoon ? this.nearest(view, next.t) : this.points(view).find((one) => one.t >= begin) || this.nearest(view, begin);
    if (!point) return null;
    if (!isSoon) return { t: point.t, rss: point.rss, totals: this.accountsAt(view, point) };
    const others = Math.max(0, point.rss - point.own);
    return { t: next.t, rss: next.rss + others, totals: new Map([...next.totals, [WORKERS, others]]) };
  }

  // Accounts that change by next to nothing since then; with one snapshot nothing is known to be constant.
  constants(view) {
    const key = "constants" + view;
    if (!this.cache.has(key)) this.cache.set(key, this.unchanged(view));
    return this.cache.get(key);
  }

  unchanged(view) {
    const start = this.baseline(view), from = start ? start.t : 0;
    const all = this.snapshotsOf(view), later = all.filter((snapshot) => snapshot.t >= from - 1e-9);
    const seen = later.length > 1 ? later : all;
    if (seen.length < 2) return new Set();
    const least = Math.max(LEAST_CHANGE, LEAST_CHANGE_PART * Math.max(...seen.map((snapshot) => snapshot.rss)));
    const names = new Set(all.flatMap((snapshot) => [...snapshot.totals.keys()]));
    return new Set([...names].filter((name) => {
      const sizes = seen.map((snapshot) => snapshot.totals.get(name) || 0);
      return name !== this.culprit && name !== UNEXPLAINED && Math.max(...sizes) - Math.min(...sizes) < least;
    }));
  }

  // What is drawn, from the bottom: constant accounts, the culprit, what grew most, the rest.
  bands(view) {
    const key = "bands" + view + (this.unfolded ? "+" : "");
    if (this.cache.has(key)) return this.cache.get(key);
    const snapshots = this.snapshotsOf(view), points = this.points(view), constants = this.constants(view);
    const most = new Map(), grown = new Map();
    for (const snapshot of snapshots) {
      for (const [name, size] of snapshot.totals) {
        most.set(name, Math.max(most.get(name) || 0, size));
        grown.set(name, size - (snapshots[0].totals.get(name) || 0));
      }
    }
    const score = (name) => (name === this.culprit ? Infinity : snapshots.length > 1 ? Math.abs(grown.get(name)) : most.get(name));
    const special = [UNEXPLAINED, OTHERS];
    const changing = [...most.keys()].filter((name) => !constants.has(name) && !special.includes(name)).sort((a, b) => score(b) - score(a)).slice(0, MAX_BANDS);
    const still = this.unfolded || constants.size < 2 ? [...constants].filter((name) => !special.includes(name)).sort((a, b) => most.get(b) - most.get(a)).slice(0, MAX_CONSTANTS) : [];
    const order = [...new Set([CONSTANT, ...still, this.culprit, ...changing, OTHERS, UNEXPLAINED, BETWEEN, WORKERS])].filter(Boolean);
    const bandOf = (name) => order.includes(name) ? name : constants.has(name) ? CONSTANT : OTHERS;
    const values = new Map(order.map((name) => [name, points.map(() => 0)]));
    points.forEach((point, at) => {
      for (const [name, size] of this.accountsAt(view, point)) values.get(bandOf(name))[at] += size;
    });
    const start = this.baseline(view), base = new Map();
    for (const [name, size] of start ? start.totals : []) base.set(bandOf(name), (base.get(bandOf(name)) || 0) + size);
    const found = order.filter((name) => values.get(name).some(Boolean)).map((name) => ({
      name, values: values.get(name), base: base.get(name) || 0, isConstant: name === CONSTANT || constants.has(name),
      color: this.color(view, name) }));
    this.cache.set(key, found);
    return found;
  }

  // Classes of CSS. An account has one color on every page: that of its name.
  color(view, name) {
    const fixed = { [CONSTANT]: "k-constant", [OTHERS]: "k-other", [UNEXPLAINED]: "k-unexplained", [BETWEEN]: "k-between", [WORKERS]: "k-workers" };
    if (name && name === this.culprit) return "paint k-culprit";
    return "paint " + (fixed[name] || (this.constants(view).has(name) ? "k-constant" : "k" + (hashOf(name) % COLORS)));
  }

  // A stretch in full detail takes the place of the coarse points within it.
  refine(detail) {
    const { t } = this.series;
    if (!detail.t.length || this.series.step !== 1 || detail.step !== 1) return;
    const [from, to] = [detail.t[0], detail.t[detail.t.length - 1]];
    const first = t.findIndex((at) => at >= from), last = t.findLastIndex((at) => at <= to);
    const cut = (whole, part) => first < 0 ? whole : [...whole.slice(0, first), ...part, ...whole.slice(last + 1)];
    const column = (series, pid) => {
      const found = series.processes[pid] || { from: 0, bytes: [] };
      return series.t.map((_, i) => found.bytes[i - found.from]);
    };
    const processes = {};
    for (const pid of this.pids) {
      const all = cut(column(this.series, pid), column(detail, pid));
      const start = all.findIndex((size) => size !== undefined), end = all.findLastIndex((size) => size !== undefined);
      processes[pid] = { from: Math.max(0, start), bytes: start < 0 ? [] : all.slice(start, end + 1).map((size) => size || 0) };
    }
    const series = { ...this.series, processes };
    for (const name of ["level", "low", "high", "main", "t"]) series[name] = cut(this.series[name], detail[name]);
    this.series = series;
    this.cache.clear();
  }

  bandName(view, account) {
    const names = this.bands(view).map((band) => band.name);
    const rest = account === UNEXPLAINED ? BETWEEN : this.constants(view).has(account) ? CONSTANT : OTHERS;
    const band = names.includes(account) ? account : rest;
    return names.includes(band) ? band : null;
  }
}

const sorted = (rows) => [...rows].sort((a, b) => b.resident - a.resident || (a.name < b.name ? -1 : 1));

function totals(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.name, (found.get(row.name) || 0) + row.resident);
  return found;
}

const COLORS = 20;

// FNV-1a
function hashOf(text) {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return hash;
}

const KNOWN_RANK = 2; // TypeRank.ROLE

// What grew between two snapshots: accounts, classes, containers.
function growthBetween(before, after, least) {
  const change = (from, to, also = () => false) => [...new Set([...from.keys(), ...to.keys()])]
    .map((name) => ({ name, before: from.get(name) || 0, after: to.get(name) || 0 }))
    .map((row) => ({ ...row, grown: row.after - row.before })).filter((row) => row.grown || also(row.name))
    .sort((a, b) => Math.abs(b.grown) - Math.abs(a.grown));
  const lengths = (snapshot) => new Map(snapshot.containers.map((c) => [c.path, c.length]));
  // of the user's classes and known roles it matters, too, that their number stays
  const classes = change(before.counts, after.counts, (name) => after.ranks.get(name) <= KNOWN_RANK)
    // both lists hold the most numerous only: a class of nobody's that is missing is unknown, not zero
    .filter((row) => (after.user.has(row.name) || before.counts.has(row.name)) && after.counts.has(row.name));
  return {
    accounts: change(before.totals, after.totals).filter((row) => Math.abs(row.grown) >= (least || 0)),
    classes: classes.sort((a, b) => after.ranks.get(a.name) - after.ranks.get(b.name) || Math.abs(b.grown) / Math.max(1, b.before) - Math.abs(a.grown) / Math.max(1, a.before)),
    containers: change(lengths(before), lengths(after)),
  };
}
