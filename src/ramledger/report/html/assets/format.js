// Sizes, times and elements. Text from a recording only ever becomes a text node.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const SVG = "http://www.w3.org/2000/svg";

function bytes(size) {
  let value = Math.abs(size);
  let unit = 0;
  while (value >= 1023.95 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return (size < 0 ? "-" : "") + (unit ? value.toFixed(1) : Math.round(value)) + " " + UNITS[unit];
}

const delta = (size) => (size > 0 ? "+" : "") + bytes(size);
const count = (number) => number.toLocaleString("en-US");
const share = (part, whole) => (whole ? ((100 * part) / whole).toFixed(1) : "0.0") + "%";

function seconds(value) {
  if (value < 60) return value.toFixed(value < 10 ? 1 : 0) + " s";
  const minutes = Math.round(value / 60);
  if (value < 600) return Math.floor(value / 60) + " min " + Math.round(value % 60) + " s";
  if (minutes < 120) return minutes + " min";
  if (minutes < 2880) return Math.floor(minutes / 60) + " h " + (minutes % 60) + " min";
  return Math.floor(minutes / 1440) + " d " + Math.floor((minutes % 1440) / 60) + " h";
}

function clock(value, span) {
  const pad = (n) => String(n).padStart(2, "0");
  const h = Math.floor(value / 3600), m = Math.floor(value / 60) % 60, s = value % 60;
  if (span < 20) return value.toFixed(span < 4 ? 1 : 0) + " s";
  if (span < 3600 && value < 3600) return m + ":" + pad(Math.floor(s));
  return h + ":" + pad(m) + (span < 600 ? ":" + pad(Math.floor(s)) : "");
}

// About, as people say it: "9 days", "3 hours".
function about(value) {
  const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([one]) => value >= 1.5 * one) || [1, "second"];
  const number = Math.max(1, Math.round(value / size));
  return number + " " + unit + (number === 1 ? "" : "s");
}

// The reader's zone is named: a recording is often read elsewhere.
const moment = (epoch) => new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" }).format(new Date(epoch * 1000));

const per = (unit) => (unit === "generation" ? "an iteration" : "a " + unit);
const iterations = (from, to) => (from === to ? "iteration " + from : "iterations " + from + "–" + to);

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const h = (tag, properties, ...children) =>
  fill(document.createElement(tag), properties, children);
const s = (tag, properties, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

// A share of a row's width as a bar that needs no color to be read.
const bar = (fraction, kind) =>
  h("span", { class: "bar " + (kind || ""), "aria-hidden": "true" },
    h("span", { style: { width: Math.max(0, Math.min(1, fraction)) * 100 + "%" } }));

const shortPath = (path, most) =>
  path.length <= most ? path : path.slice(0, Math.ceil(most / 2) - 1) + "…"
    + path.slice(-Math.floor(most / 2));

// An account with what it is, in words, below it.
const named = (run, account, more) => [h("span", { class: "path", title: account, ...more }, account), run.meaning(account) ? h("small", { class: "meaning" }, run.meaning(account)) : null];

function table(heads, rows, caption, last) {
  const cell = (tag, content, at) => h(tag, { class: at ? "number" : "", scope: tag === "th" ? "col" : null }, content);
  return h("div", { class: "scroll" }, h("table", {},
    caption ? h("caption", {}, caption) : null,
    h("thead", {}, h("tr", {}, heads.map((head, at) => cell("th", head, at)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((c, at) => cell("td", c, at))))),
    last ? h("tfoot", {}, h("tr", {}, last.map((c, at) => cell("td", c, at)))) : null));
}

function niceStep(span, most) {
  const raw = span / Math.max(1, most);
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  return [1, 2, 5, 10].map((k) => k * power).find((step) => step >= raw) || raw;
}

function byteTicks(bottom, top, most) {
  const span = top - bottom;
  const unit = Math.pow(1024, Math.max(0, Math.min(4, Math.floor(Math.log(Math.max(1, span)) / Math.log(1024)))));
  const step = niceStep(span / unit, most) * unit;
  const ticks = [];
  for (let at = Math.ceil(bottom / step) * step; at <= top + span * 0.0001; at += step) ticks.push(at);
  return ticks;
}

function timeTicks(from, to, most) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];
  const step = steps.find((one) => (to - from) / one <= most) || niceStep(to - from, most);
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to + 1e-9; at += step) ticks.push(at);
  return ticks;
}
