// What to do: the line to change, the remedy that needs none, and what remedies did in this run.
function adviceSection(app) {
  const { data } = app.run;
  const found = data.verdict ? data.verdict.findings.filter((finding) => finding.kind === "leak" && finding.advice) : [];
  const leaks = found.filter((finding, at) => found.findIndex((other) => other.summary === finding.summary) === at);
  const items = [
    ...leaks.map((finding) => adviceItem(finding.summary.replace(/^leak: /, ""), "stops " + bytes(finding.bytes_per_generation) + " " + per(finding.per), "", data.commands[finding.apply], [finding.advice])),
    ...data.advice.map((item) => adviceItem(item.title, "saves " + (item.at_most ? "up to " : "") + bytes(item.saves_bytes), item.why, data.commands[item.apply], item.do))];
  const remedies = remediesPart(data.remedies);
  if (!items.length && !remedies) return null;
  return section("advice", items.length ? "What to do" : "What was done", items.length ? h("ol", { class: "advice" }, items) : null, remedies);
}

function adviceItem(title, saving, why, command, steps) {
  return h("li", {}, h("p", {}, h("b", {}, title), " ", h("span", { class: "kind" }, saving)), why ? h("p", {}, why) : null,
    command ? h("p", { class: "fix" }, h("small", {}, "without a change to the script"), h("br"), h("code", {}, command)) : null,
    command && steps.length ? h("details", {}, h("summary", {}, "by hand"), h("ul", {}, steps.map((step) => h("li", {}, step)))) : h("ul", {}, steps.map((step) => h("li", {}, step))));
}

function remediesPart(remedies) {
  if (!remedies) return null;
  return [h("h3", {}, "Remedies in this run"), h("ul", { class: "remedies" }, [...remedies.each.map((one) => one.line), ...remedies.compared].map((line) => h("li", {}, line)))];
}
