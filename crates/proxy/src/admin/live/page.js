// The live page: reads /status and /metrics every two seconds and draws what changed between them.
"use strict";

const INTERVAL = 2000;
const COLUMNS = 150;

// Groups of outcomes, from the bottom of the chart to its top. The first that matches counts.
const GROUPS = [
  { name: "from memory", color: "#2a7f62", outcome: /^(HIT_RAM|HIT_FILL)$/ },
  { name: "from disk", color: "#6ab187", outcome: /^HIT_DISK$/ },
  { name: "from a node", color: "#a3c9a8", outcome: /^HIT_PEER$/ },
  { name: "validated or stale", color: "#d9b44a", outcome: /^(REVALIDATED|REFRESHED|STALE)$/ },
  { name: "error", color: "#c22", outcome: /^(ERROR|INVALID)$/ },
  { name: "origin and other", color: "#6b8fb5", outcome: /./ },
];

const byId = (id) => document.getElementById(id);
// Requests a second of each group, one column of the chart each.
const columns = [];
let before = null;

/** Parses Prometheus' text format into rows of labels and value, by name. */
function parse(text) {
  const rows = new Map();
  for (const line of text.split("\n")) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\(.)/g, "$1");
    }
    if (!rows.has(found[1])) rows.set(found[1], []);
    rows.get(found[1]).push({ labels, value: Number(found[3]) });
  }
  return rows;
}

/** Returns the sum of a metric over the rows that match. */
function sum(rows, name, matches = () => true) {
  const all = (rows.get(name) || []).filter(({ labels }) => matches(labels));
  return all.reduce((total, row) => total + row.value, 0);
}

/** Returns the change of a metric a second since the sample before. */
function rate(now, name, matches) {
  const change = sum(now.rows, name, matches) - sum(before.rows, name, matches);
  return Math.max(0, change) / ((now.at - before.at) / 1000);
}

/** Returns the different values of a label of a metric. */
function values(now, name, label) {
  return [...new Set((now.rows.get(name) || []).map((row) => row.labels[label]))];
}

/** Returns the requests a second of each group. */
function groups(now) {
  const rates = GROUPS.map(() => 0);
  for (const outcome of values(now, "larder_requests_total", "outcome")) {
    const group = GROUPS.findIndex((group) => group.outcome.test(outcome));
    const of = (labels) => labels.outcome === outcome;
    rates[group] += rate(now, "larder_requests_total", of);
  }
  return rates;
}

/** Returns the upper bound of the bucket in which a share of the new requests ended, in seconds. */
function percentile(now, share) {
  const name = "larder_request_duration_seconds_bucket";
  const counts = values(now, name, "le").map((le) => {
    const of = (labels) => labels.le === le;
    return [le === "+Inf" ? Infinity : Number(le), rate(now, name, of)];
  });
  counts.sort((a, b) => a[0] - b[0]);
  const all = counts.length ? counts[counts.length - 1][1] : 0;
  const bucket = counts.find(([, count]) => count >= share * all);
  return all > 0 && bucket ? bucket[0] : null;
}

function number(value) {
  const units = ["", " k", " M", " G", " T", " P"];
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  const digits = unit === 0 && Number.isInteger(value) ? 0 : value < 10 ? 2 : 1;
  return value.toFixed(digits) + units[unit];
}

const bytes = (value) => `${number(value)}B`.replace(/(\d)B$/, "$1 B");
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const duration = (seconds) => (seconds === null ? "-" : `≤ ${number(1000 * seconds)} ms`);

function element(tag, text, parent) {
  const made = document.createElement(tag);
  made.textContent = text;
  parent.append(made);
  return made;
}

function table(id, head, rows) {
  const place = byId(id);
  place.replaceChildren();
  const top = element("tr", "", place);
  head.forEach((name) => element("th", name, top));
  for (const cells of rows) {
    const row = element("tr", "", place);
    for (const cell of cells) {
      const made = element("td", typeof cell === "object" ? "" : cell, row);
      if (typeof cell === "object") made.append(cell);
    }
  }
}

function showState(status) {
  document.title = `Larder: ${status.state}`;
  byId("title").textContent = `Larder ${status.version}: ${status.serves}`;
  const why = status.why ? `: ${status.why}` : "";
  byId("state").textContent =
    `${status.state}${why}, on ${status.listeners}, for ${Math.floor(status.uptime_seconds)} s`;
  byId("state").className = status.state === "ready" ? "" : "bad";
}

function showFigures(now, status, rates) {
  const all = rates.reduce((total, rate) => total + rate, 0);
  const hits = rates[0] + rates[1] + rates[2] + rates[3];
  const figures = [
    ["requests a second", number(all)],
    ["without the origin's body", all > 0 ? percent(hits / all) : "-"],
    ["half of them within", duration(percentile(now, 0.5))],
    ["99% within", duration(percentile(now, 0.99))],
    ["sent a second", bytes(rate(now, "larder_client_sent_bytes_total"))],
    ["connections", number(status.connections)],
    ["errors of servers a second", number(rate(now, "larder_upstream_errors_total"))],
    ["memory", `${bytes(status.memory_bytes)} of ${bytes(status.memory_limit_bytes)}`],
  ];
  byId("figures").replaceChildren();
  for (const [name, value] of figures) {
    element("b", value, element("div", "", byId("figures"))).after(name);
  }
}

function showCaches(now, status) {
  const rows = status.caches.map((cache) => {
    const of = (labels) => labels.cache === cache.path;
    const used = document.createElement("progress");
    used.value = cache.used;
    used.title = percent(cache.used);
    const each = (name) => number(rate(now, name, of));
    return [
      cache.path + (cache.online ? "" : " (out of use)"),
      bytes(cache.bytes),
      used,
      number(cache.objects),
      each("larder_device_reads_total"),
      each("larder_device_writes_total"),
      each("larder_store_insertions_total"),
      each("larder_store_evictions_total"),
    ];
  });
  const head = ["path", "size", "used", "objects", "reads/s", "writes/s", "stored/s", "evicted/s"];
  table("caches", head, rows);
}

function showServers(now) {
  const rows = (now.rows.get("larder_upstream_server_up") || []).map(({ labels, value }) => {
    const of = (row) => row.labels.site === labels.site && row.labels.server === labels.server;
    const at = (sample, name) => {
      const row = (sample.rows.get(name) || []).find(of);
      return row ? row.value : 0;
    };
    const each = (name) => {
      const change = Math.max(0, at(now, name) - at(before, name));
      return number(change / ((now.at - before.at) / 1000));
    };
    return [
      labels.site || "",
      labels.server,
      value === 1 ? "up" : "out",
      number(at(now, "larder_upstream_server_active")),
      each("larder_upstream_server_requests_total"),
      each("larder_upstream_server_failures_total"),
    ];
  });
  const head = ["site", "server", "state", "active", "requests/s", "failures/s"];
  table("servers", head, rows);
}

function draw() {
  const canvas = byId("chart");
  const scale = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * scale;
  canvas.height = canvas.clientHeight * scale;
  const top = Math.max(1, ...columns.map((rates) => rates.reduce((a, b) => a + b, 0)));
  const context = canvas.getContext("2d");
  const width = canvas.width / COLUMNS;
  columns.forEach((rates, at) => {
    let bottom = canvas.height;
    rates.forEach((rate, group) => {
      const height = (rate / top) * (canvas.height - 16 * scale);
      context.fillStyle = GROUPS[group].color;
      context.fillRect((COLUMNS - columns.length + at) * width, bottom - height, width, height);
      bottom -= height;
    });
  });
  context.fillStyle = "gray";
  context.font = `${12 * scale}px system-ui, sans-serif`;
  context.fillText(`${number(top)} a second`, 0, 12 * scale);
}

async function sample() {
  try {
    const [status, metrics] = await Promise.all([fetch("/status"), fetch("/metrics")]);
    if (!status.ok || !metrics.ok) throw new Error(`status ${status.status}, ${metrics.status}`);
    const state = await status.json();
    const now = { at: Date.now(), rows: parse(await metrics.text()), pid: state.pid };
    showState(state);
    // The counters of another process begin anew.
    if (before && before.pid === now.pid) {
      const rates = groups(now);
      columns.push(rates);
      if (columns.length > COLUMNS) columns.shift();
      showFigures(now, state, rates);
      showCaches(now, state);
      showServers(now);
      draw();
    }
    before = now;
  } catch (error) {
    byId("state").textContent = `no answer: ${error.message}`;
    byId("state").className = "bad";
  }
  setTimeout(sample, INTERVAL);
}

for (const { name, color } of GROUPS) {
  const square = element("i", "", byId("legend"));
  square.style.background = color;
  square.after(name);
}
sample();
