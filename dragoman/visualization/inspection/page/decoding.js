// The search: each token's probability and alternatives, the n best translations, and the beam as a tree.

const STEPS_IN_TREE = 60;

function drawSteps() {
  const table = byId("steps");
  const head = element("tr");
  for (const name of ["token", "probability", "entropy (bits)", "cumulative log-probability", "alternatives"]) head.append(element("th", name));
  table.append(head);
  for (const [place, step] of data.steps.entries()) {
    const row = element("tr", "", step.probability < 0.5 ? "doubtful" : "");
    const probability = element("td");
    const gauge = element("span", "", "gauge");
    const filled = element("i");
    filled.style.width = `${100 * step.probability}%`;
    gauge.append(filled);
    probability.append(gauge, percent(step.probability));
    const token = element("td");
    token.append(element("bdi", shown(step.token), "token"));
    row.append(token, probability, element("td", step.entropy_bits.toFixed(2)), element("td", step.running_log_prob.toFixed(2)));
    if (place < data.forced) row.classList.add("forced");
    row.append(alternativesOf(step, place));
    table.append(row);
  }
}

// URL of the page for a translation that starts with these tokens, if a server provides such pages.
function exploreUrl(ids) {
  return `${data.explore}&prefix=${ids.join(",")}`;
}

function alternativeItem(one, place) {
  if (!data.explore) return element("span", shown(one.token));
  const link = element("a", shown(one.token));
  link.href = exploreUrl([...data.tgt.ids.slice(0, place), one.id]);
  link.title = "Translate again with this token";
  const item = element("span");
  item.append(link);
  return item;
}

function drawForced() {
  byId("explore-help").hidden = !data.explore;
  if (!data.forced) return;
  const ids = data.tgt.ids.slice(0, data.forced);
  byId("forced").hidden = false;
  byId("forced-text").textContent = shown(data.tgt.tokens.slice(0, ids.length).join("").replaceAll("▁", " ").trim());
  if (data.explore) byId("unforced").href = data.explore;
  byId("unforced").hidden = !data.explore;
}

function alternativesOf(step, place) {
  const cell = element("td");
  const list = element("div", "", "alternatives");
  for (const one of step.alternatives) {
    const item = alternativeItem(one, place);
    item.append(" ", element("em", percent(one.probability)));
    list.append(item);
  }
  const continued = step.alternatives.filter((one) => one.continuation !== null);
  if (!continued.length) {
    cell.append(list);
    return cell;
  }
  const details = element("details");
  const summary = element("summary");
  summary.append(list);
  details.append(summary);
  for (const one of continued) {
    const line = element("p", "", "then");
    line.append(element("bdi", `${shown(one.token)} → `, "token"), ...markDifferences(one.continuation));
    line.append(" ", element("em", `score ${one.score.toFixed(2)}`, "quiet"));
    details.append(line);
  }
  cell.append(details);
  return cell;
}

// A text with the words marked that differ from the translation: everything between the common start and the common end.
function markDifferences(text) {
  const [ours, theirs] = [data.tgt.text, text].map((one) => one.split(" "));
  let start = 0;
  while (start < Math.min(ours.length, theirs.length) && ours[start] === theirs[start]) start++;
  let end = 0;
  while (end < Math.min(ours.length, theirs.length) - start && ours.at(-1 - end) === theirs.at(-1 - end)) end++;
  const parts = [
    ["same", theirs.slice(0, start)],
    ["differs", theirs.slice(start, theirs.length - end)],
    ["same", theirs.slice(theirs.length - end)],
  ];
  return parts.filter(([, words]) => words.length).flatMap(([name, words]) => [element("bdi", shown(words.join(" ")), name), " "]);
}

function drawBest() {
  for (const one of data.n_best) {
    const item = element("li");
    item.append(...markDifferences(one.text), element("span", `score ${one.score.toFixed(2)}, log-probability ${one.log_prob.toFixed(2)}`, "quiet"));
    byId("n-best").append(item);
  }
}

function drawBeam() {
  const nodes = data.beam.map((node, index) => ({ ...node, index })).filter((node) => node.position < STEPS_IN_TREE);
  const columns = new Map();
  for (const node of nodes) {
    if (!columns.has(node.position)) columns.set(node.position, []);
    columns.get(node.position).push(node);
  }
  const place = new Map();
  let highest = 0;
  for (const [position, column] of columns) {
    column.sort((one, two) => (two.best - one.best) || (two.log_prob - one.log_prob));
    column.forEach((node, rank) => place.set(node.index, [14 + position * 104, 16 + rank * 24]));
    highest = Math.max(highest, column.length);
  }
  const [width, height] = [columns.size * 104 + 20, highest * 24 + 12];
  const svg = drawSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Beam search as a tree" }, byId("beam"));
  const groups = new Map();
  for (const node of [...nodes].sort((one, two) => one.best - two.best)) {
    const [x, y] = place.get(node.index);
    const text = shown(node.token);
    const facts = `\u2068${text}\u2069: log-probability ${node.log_prob.toFixed(2)}, ${STATES[node.state]}${node.best ? ", part of the translation" : ""}`;
    const classes = `${node.state}${node.best ? " best" : ""}`;
    const group = drawSvg("g", { class: classes, tabindex: -1, role: "img", "aria-label": facts }, svg);
    groups.set(node.index, group);
    for (const kind of ["pointerenter", "focus", "click"]) {
      group.addEventListener(kind, () => (byId("beam-fact").textContent = facts));
    }
    group.addEventListener("keydown", (event) => goInTree(event, node, nodes, columns, groups));
    const parent = place.get(node.parent);
    if (parent) {
      const start = parent[0] + 70;
      drawSvg("path", { d: `M${start},${parent[1]} C${start + 18},${parent[1]} ${x - 22},${y} ${x - 5},${y}` }, group);
    }
    drawSvg("circle", { cx: x, cy: y, r: 4 }, group);
    drawSvg("rect", { x: x - 8, y: y - 12, width: 84, height: 24 }, group);
    drawSvg("text", { x: x + 8, y: y + 4 }, group).textContent = text.length > 9 ? `${text.slice(0, 8)}…` : text;
  }
  if (nodes.length) groups.get(columns.get(nodes[0].position)[0].index).setAttribute("tabindex", 0);
  if (data.beam.length > nodes.length) byId("beam").append(element("p", `Only the first ${STEPS_IN_TREE} steps are shown.`, "quiet"));
}

const STATES = { kept: "kept", pruned: "pruned", ended: "end of a hypothesis", open: "in the beam when the search stopped" };

// The tree is one tab stop: ← moves to the token before, → to the token after, ↑ ↓ between the tokens of a step.
function goInTree(event, node, nodes, columns, groups) {
  if (!(event.key in MOVES) || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const [down, right] = MOVES[event.key];
  const column = columns.get(node.position);
  const following = () => (columns.get(node.position + 1) || []).find((one) => one.parent === node.index);
  const next = down ? column[column.indexOf(node) + down] : right > 0 ? following() : nodes.find((one) => one.index === node.parent);
  if (!next) return;
  groups.get(node.index).setAttribute("tabindex", -1);
  groups.get(next.index).setAttribute("tabindex", 0);
  groups.get(next.index).focus();
}

function drawOpinions() {
  const opinions = data.opinions;
  byId("opinions").replaceChildren();
  if (!opinions) {
    byId("opinion-help").textContent = "Not available: the text is too long for the other measures, or the translation is empty.";
    return;
  }
  const correlation = (value) => (value === null ? "" : `; rank correlation with attention ${value.toFixed(2)}`);
  byId("opinion-help").textContent =
    "Three measures of how much each target word (row) depends on each source word (column). Rows sum to 1. " +
    "Trust attention less where the measures disagree.";
  const measures = [
    ["attention", "Attention"],
    ["occlusion", `Occlusion (source word left out)${correlation(opinions.occlusion_correlation)}`],
    ["gradient", `Gradient × input${correlation(opinions.gradient_correlation)}`],
  ];
  const names = { rows: data.tgt.words.map((word) => word.text), columns: data.src.words.map((word) => word.text) };
  const room = byId("opinions").clientWidth;
  for (const [name, caption] of measures) {
    const figure = element("figure");
    const value = element("p", "\u00a0", "quiet");
    const cells = Uint8Array.from(opinions[name].flat(), (share) => Math.round(255 * share));
    const tell = (row, column, weight) => {
      value.textContent = `\u2068${shown(names.rows[row])}\u2069, \u2068${shown(names.columns[column])}\u2069: ${weight.toFixed(2)}`;
    };
    const box = element("div", "", "scroll");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", caption);
    goByCell(box);
    value.setAttribute("aria-live", "polite");
    box.append(grid(cells, names, room > 900 ? room / 3 : room > 600 ? room / 2 : room, tell));
    figure.append(element("figcaption", caption), box, value);
    byId("opinions").append(figure);
  }
}
