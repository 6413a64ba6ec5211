// Draws what ./result says; asks again every second while it is seen.
const EVERY_MS = 1000;
const COLUMNS = ["mean", "p50", "p90", "p95", "p99", "p99_9", "max"];
const framed = window.parent !== window;
let drawn = "";

/** An element with children; strings are text, never markup. */
function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Three significant digits, more where the number is large; a dash where there is none. */
function figure(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  if (size < 0.0005) return value.toPrecision(2);
  const digits = size < 1 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0;
  const text = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return text.replace(/\.0+$/, "");
}

/** An error of 6e-07 is one more than 5e-07, so it is not rounded to three places. */
const tiny = (value) => (value === 0 ? "0" : value.toPrecision(2));
const percent = (share, digits = 1) => (share === null ? "–" : `${(100 * share).toFixed(digits)} %`);
const label = (key) => key.replaceAll("_", " ").replace("p99 9", "p99.9");

function table(heads, rows) {
  const cell = (name, content, place) => {
    const made = element(name, heads[place].number ? "number" : "");
    made.append(...[content].flat().filter((part) => part !== null));
    return made;
  };
  const head = element("tr", "", ...heads.map((column, place) => cell("th", column.title, place)));
  const body = rows.map((row) => element("tr", "", ...row.map((content, place) => cell("td", content, place))));
  return element("div", "scroll", element("table", "", element("thead", "", head), element("tbody", "", ...body)));
}

function tile(name, value, unit, note) {
  const shown = element("div", "value", value, unit ? element("small", "", ` ${unit}`) : null);
  return element("div", "tile", element("div", "name", name), shown, element("div", "note", note || ""));
}

/** Two questions, two badges: is it measured well, and was the objective met. */
function answers({ valid, objective }) {
  const made = [element("span", `badge ${valid ? "good" : "bad"}`, valid ? "VALID" : "INVALID")];
  if (objective) made.push(" ", element("span", `badge ${objective === "met" ? "good" : "bad"}`, objective.toUpperCase()));
  return made;
}

function badge(state, result) {
  const verdict = result && result.verdict;
  if (state === "finished" && verdict) return element("span", "", ...answers(verdict));
  if (state === "failed") return element("span", "badge bad", "FAILED");
  const warm = result && result.metrics;
  return element("span", "badge busy", state === "idle" ? "READY" : warm ? "RUNNING" : "STARTING");
}

function words({ state, error, result }) {
  if (state === "idle") return element("p", "dim", "No run yet. Start one, and its figures come here.");
  if (state === "failed") return element("p", "bad said", error);
  if (state === "running") {
    const { measured_s: passed, duration_s: whole } = result ? result.scenario : {};
    if (passed === undefined) return element("p", "dim", "Checks, requests and connections are being made.");
    if (passed === 0) return element("p", "dim", "Warm-up: these requests do not count.");
    return element("p", "dim", `${passed.toFixed(0)} of ${figure(whole)} s measured. The verdict comes at the end.`);
  }
  const { constraints, valid, objective } = result.verdict;
  const failed = constraints.filter(({ ok }) => !ok).map(({ name }) => label(name));
  let text = `All ${constraints.length} constraints hold: these figures may be quoted.`;
  if (!valid) text = `Not to be quoted: ${failed.join(", ")} ${failed.length === 1 ? "does" : "do"} not hold.`;
  if (objective) text += ` The objective is ${objective}.`;
  return element("p", valid ? "good" : "bad", text);
}

function heading(standing) {
  const { result, state, title } = standing;
  const parts = [element("header", "", element("h1", "", result ? result.workload : "servemark"), badge(state, result))];
  if (result) {
    const where = ["engine", "device", "precision", "protocol"].map((key) => result[key]).filter(Boolean).join(", ");
    parts.push(element("p", "", `on ${where}  |  ${title}, batch ${result.batch_size}`));
  }
  if (standing.answer) parts.push(element("p", "answer", standing.answer));
  parts.push(words(standing));
  if (state === "running" && result && result.scenario.measured_s) {
    const bar = element("progress", "");
    bar.max = result.scenario.duration_s;
    bar.value = Math.min(result.scenario.measured_s, bar.max);
    parts.push(bar);
  }
  return parts;
}

function noteOf(throughput, asked, batch) {
  const known = [[asked, "asked"], [throughput.scheduled_rate, "scheduled"]].filter(([rate]) => rate);
  const parts = known.map(([rate, word]) => `${word} ${figure(rate)}/s`);
  return [...parts, ...(batch > 1 ? [`${figure(throughput.inferences_per_s)} inferences/s`] : [])].join(", ");
}

function tiles({ metrics, bottleneck: limited, batch_size: batch, request }) {
  const asked = request && request.load.rate;
  const { throughput, errors, latency_ms: latency, energy, correctness } = metrics;
  const tail = ["p99", "p95", "p90"].find((key) => latency[key] !== null) || "p50";
  const interval = latency.ci95[tail] && `95 % interval ${latency.ci95[tail].map(figure).join(" to ")} ms`;
  const made = [
    tile("Throughput", figure(throughput.requests_per_s), "requests/s", noteOf(throughput, asked, batch)),
    tile(`Latency ${tail}`, figure(latency[tail]), "ms", interval || latency[`${tail}_reason`] || "so far"),
    tile("Succeeded", figure(latency.count), "requests", `${figure(errors.count)} failed (${percent(errors.share)})`),
  ];
  if (energy && energy.joules_per_inference !== null) {
    made.push(tile("Energy", figure(energy.joules_per_inference), "J/inference", `${energy.boundary}, ${energy.source}`));
  }
  if (correctness) {
    const agreement = correctness.output_agreement;
    const error = agreement.max_abs_error === null ? agreement.max_abs_error_reason : `max error ${tiny(agreement.max_abs_error)}`;
    const note = agreement.checked ? `${agreement.checked} answers checked, ${error}` : error;
    made.push(tile("Output agreement", agreement.checked ? `${agreement.top1_samples} of ${agreement.samples}` : "not checked", agreement.checked ? "top-1" : "", note));
  }
  if (limited) {
    const [by, evidence] = limited.by ? [limited.by, limited.evidence] : limited.evidence.split(/: (.*)/s);
    made.push(tile("Limited by", by, "", evidence));
  }
  return element("div", "tiles", ...made);
}

function latencies({ metrics }) {
  const rows = [
    ["latency, from the schedule", metrics.latency_ms],
    ["service time, from sending", metrics.service_time_ms],
    ["schedule delay of the generator", metrics.schedule_delay_ms],
  ];
  const missing = new Set();
  const cells = rows.map(([name, summary]) => [
    name,
    ...COLUMNS.map((key) => {
      const interval = summary.ci95[key];
      const reason = summary[`${key}_reason`];
      if (reason) missing.add(`${label(key)} ${reason}`);
      if (summary.reason) missing.add(summary.reason);
      return [figure(summary[key]), interval ? element("small", "", interval.map(figure).join(" – ")) : null];
    }),
  ]);
  const bounds = metrics.tail_bounds && metrics.tail_bounds.bounds_ms;
  if (bounds) {
    const sure = percent(metrics.tail_bounds.confidence, 0);
    cells.push([`latency bound kept with ${sure} confidence`, ...COLUMNS.map((key) => figure(bounds[key]))]);
  }
  const heads = [{ title: bounds ? "ms, with 95 % intervals" : "ms" }, ...COLUMNS.map((key) => ({ title: label(key), number: true }))];
  const notes = missing.size ? [element("p", "dim note", [...missing].join("; "))] : [];
  return [element("h2", "", "Latency"), table(heads, cells), ...notes];
}

function verdict({ verdict: judged }) {
  if (!judged) return [];
  const rows = judged.constraints.map(({ name, ok, value, limit, unit, remedy }) => [
    element("span", "name", label(name)),
    element("strong", ok ? "good" : "bad", ok ? "Yes" : "No"),
    figure(value),
    value !== null && figure(value) === figure(limit) && value !== limit ? String(limit) : figure(limit),
    unit,
    ok ? "" : element("span", "warn", remedy),
  ]);
  const objectives = judged.objectives.map(({ objective, status, value, limit, unit, remedy }) => [
    element("span", "name", objective),
    element("strong", status === "met" ? "good" : "bad", status.toUpperCase()),
    figure(value),
    figure(limit),
    unit,
    status === "met" ? "" : element("span", "warn", remedy),
  ]);
  const skipped = Object.entries(judged.skipped).map(([name, why]) => [label(name), "–", "–", "–", "", `not judged: ${why}`]);
  const titles = ["constraint", "holds", "value", "limit", "unit"];
  // With nothing to fix or to say, this column would only push the others apart.
  if (!judged.valid || skipped.length || (judged.objective && judged.objective !== "met")) titles.push("remedy");
  const heads = titles.map((title, place) => ({ title, number: place === 2 || place === 3 }));
  return [element("h2", "", "Verdict"), table(heads, [...rows, ...objectives, ...skipped].map((row) => row.slice(0, titles.length)))];
}

function failures({ metrics: { errors } }) {
  const kinds = Object.entries(errors.by_kind);
  if (!kinds.length) return [];
  const rows = kinds.map(([kind, count]) => [kind, figure(count), (errors.messages[kind] || []).join(" | ")]);
  return [element("h2", "", "Errors by kind"), table([{ title: "kind" }, { title: "requests", number: true }, { title: "first messages" }], rows)];
}

function workers({ workers: found }) {
  if (!found) return [];
  const rows = found.map((worker) => [
    `${worker.index}`,
    `${worker.host}, pid ${worker.pid}`,
    figure(worker.requests),
    figure(worker.schedule_delay_p99_ms),
    figure(worker.cpu_utilization),
    figure(worker.clock_uncertainty_ms),
    worker.trouble ? element("span", "warn", worker.trouble) : "",
  ]);
  const heads = ["worker", "where", "requests", "schedule delay p99, ms", "share of a core", "clock uncertainty, ms", "trouble"];
  return [element("h2", "", "Workers"), table(heads.map((title, place) => ({ title, number: place > 1 && place < 6 })), rows)];
}

function rest({ directory, result }) {
  const parts = [];
  const server = result.metrics && result.metrics.server;
  if (server && server.queue_ms !== null) {
    const { queue_ms: queue, compute_input_ms: input, compute_infer_ms: infer, compute_output_ms: output } = server;
    parts.push(element("p", "", `Server: queue ${figure(queue)} + input ${figure(input)} + infer ${figure(infer)} + output ${figure(output)} ms; mean executed batch ${figure(server.batch_size_mean)}`));
  }
  const { warmup_s: warmedS, warmup: warmed } = result.scenario;
  if (warmed && warmedS !== null) {
    const found = warmed.steady ? `steady after ${figure(warmed.steady_from_s)} s (${warmed.method})` : warmed.reason;
    parts.push(element("p", "", `Warm-up: ${figure(warmedS)} s, ${found}`));
  }
  const link = element("a", "", "as JSON");
  link.href = "./result";
  link.target = "_blank";
  parts.push(element("p", "dim", "Result directory: ", element("code", "", directory), " (", link, ")"));
  return [element("h2", "", "Details"), ...parts];
}

function draw(standing) {
  const { result } = standing;
  const parts = heading(standing);
  if (result && result.metrics) parts.push(tiles(result), ...latencies(result), ...verdict(result), ...failures(result), ...workers(result));
  if (result) parts.push(...rest(standing));
  document.getElementById("page").replaceChildren(...parts);
  document.documentElement.dataset.state = standing.state;
}

function theme() {
  const chosen = localStorage.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
}

/** Nobody looks at a hidden page, so it does not ask: every answer takes some of the generator's time. */
const seen = () => document.visibilityState === "visible" && (!framed || window.frameElement.offsetParent !== null);

async function refresh() {
  if (seen()) {
    try {
      const answer = await fetch("./result");
      const text = await answer.text();
      if (answer.ok && text !== drawn) {
        draw(JSON.parse(text));
        drawn = text;
      }
    } catch (error) {
      console.warn("servemark: no answer", error); // Locust has ended; the last figures stay
    }
  }
  setTimeout(refresh, EVERY_MS);
}

theme();
window.addEventListener("storage", theme);
if (framed) {
  const fit = () => (window.frameElement.style.height = `${document.body.offsetHeight}px`);
  new ResizeObserver(fit).observe(document.body);
}
refresh();
