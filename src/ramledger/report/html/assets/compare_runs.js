// Two runs: did the change help? In a word first, then which runs these are, then owner by owner.
const RUN_NAMES = ["before", "after"];
const CHANGE_MARKS = { fixed: "●", better: "●", same: "=", worse: "▲", undecided: "◆" };

function compareSection(app) {
  if (app.runs.length < 2) return null;
  const [a, b] = app.runs;
  const found = b.data.comparison;
  const leak = (run) => run.data.verdict && run.data.verdict.findings.find((finding) => finding.kind === "leak");
  const speed = (rate) => rate.bytes_per_generation ? [h("b", {}, bytes(rate.bytes_per_generation) + " " + per(rate.per)), intervalText(rate.interval_bytes)] : "none";
  const rows = [
    ["verdict", (run) => VERDICTS[run.data.verdict ? run.data.verdict.verdict : "none"][0]],
    ["leak", (run) => speed(run === a ? found.before_rate : found.after_rate)],
    ["peak", (run) => bytes(run.data.peak.bytes)],
    ["cause", (run) => (leak(run) ? leak(run).cause : "")],
    ["held by", (run) => (leak(run) ? leak(run).culprit.path || leak(run).culprit.type : "")],
    ["ran", (run) => seconds(run.data.seconds)],
    ["iterations", (run) => iterationsOf(run).replace(/^iterations? /, "")]].map(([name, of]) => [name, of(a), of(b)]);
  const nameOf = (account) => named(a.meaning(account) ? a : b, account);
  const owners = found.owners.map((row) => [nameOf(row.account), bytes(row.before_bytes), bytes(row.after_bytes), h("b", {}, delta(row.after_bytes - row.before_bytes)), speed(row.before_rate), speed(row.after_rate)]);
  return h("section", { id: "compare", class: "compare " + found.change, "aria-label": "Before and after" },
    h("h1", {}, h("span", { class: "mark", "aria-hidden": "true" }, CHANGE_MARKS[found.change] || "◆"), " ", h("span", { class: "change" }, found.change[0].toUpperCase() + found.change.slice(1))),
    h("p", { class: "reason" }, found.sentence),
    h("div", { class: "runs" }, app.runs.map((run, at) => runCard(run, at))),
    table(["", ...RUN_NAMES], rows),
    h("h3", {}, "Differences by owner"),
    owners.length ? table(["owner", "before", "after", "difference", "growth before", "growth after"], owners) : h("p", { class: "dim" }, "no owner differs by much"));
}

function runCard({ data }, at) {
  return h("div", { class: "run-card" }, h("small", {}, RUN_NAMES[at]), h("b", { class: "file" }, data.recording),
    h("small", {}, data.started_at ? moment(data.started_at) : "date not known"), h("code", {}, data.command));
}
