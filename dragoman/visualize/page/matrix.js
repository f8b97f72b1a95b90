// The matrix of one head (or the mean or maximum of a layer's heads), and the map of all heads.

const KIND_NAMES = { cross: "translation → source", encoder_self: "source → source", decoder_self: "translation → itself" };
const END_NAMES = { cross: "end", encoder_self: "end", decoder_self: "start" };
const view = { kind: "cross", layer: 0, head: "mean" };

function cellsOf(kind, layer, head) {
  const one = weightsOf.get(kind);
  const size = one.queries.length * one.keys.length;
  const at = (number) => one.bytes.subarray((layer * one.num_heads + number) * size, (layer * one.num_heads + number + 1) * size);
  if (typeof head === "number") return at(head);
  const cells = new Float32Array(size);
  for (let number = 0; number < one.num_heads; number++) {
    const bytes = at(number);
    for (let cell = 0; cell < size; cell++) {
      cells[cell] = head === "max" ? Math.max(cells[cell], bytes[cell]) : cells[cell] + bytes[cell] / one.num_heads;
    }
  }
  return Uint8Array.from(cells, Math.round);
}

function headNames(one) {
  return one.mean_only ? ["mean"] : ["mean", "max", ...Array(one.num_heads).keys()];
}

function fillSelect(select, values, chosen) {
  select.replaceChildren();
  for (const value of values) {
    const option = element("option", typeof value === "number" ? String(value + 1) : value);
    option.value = String(value);
    option.selected = value === chosen;
    select.append(option);
  }
}

const parsedHead = (text) => (text === "mean" || text === "max" ? text : Number(text));

function drawMatrixPart() {
  const one = weightsOf.get(view.kind);
  view.layer = Math.min(view.layer, one.num_layers - 1);
  if (!headNames(one).includes(view.head)) view.head = "mean";
  fillSelect(byId("layer"), [...Array(one.num_layers).keys()], view.layer);
  fillSelect(byId("head"), headNames(one), view.head);
  for (const button of byId("kinds").children) button.setAttribute("aria-pressed", button.dataset.kind === view.kind);
  const cells = cellsOf(view.kind, view.layer, one.mean_only ? 0 : view.head);
  const names = { rows: one.queries, columns: one.keys };
  byId("matrix").replaceChildren(grid(cells, names, byId("matrix").clientWidth, showValue));
  byId("value").textContent = `Layer ${view.layer + 1}, ${typeof view.head === "number" ? `head ${view.head + 1}` : `${view.head} of the heads`}`;
  for (const button of byId("heads").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.dataset.layer === String(view.layer) && button.dataset.head === String(view.head));
  }
}

// A matrix with its labels; `tell(row, column, weight)` is called for the cell that is pointed at.
function grid(cells, names, room, tell) {
  const [rows, columns] = [names.rows.length, names.columns.length];
  // Labels must be readable: up to 120 columns the matrix rather scrolls than shrinks.
  const least = columns > 120 ? 5 : 12;
  const side = Math.max(least, Math.min(28, Math.floor((room - 140) / columns)));
  const box = element("div", "", "grid");
  const top = element("div", "", "columns");
  const left = element("div", "", "rows");
  const canvas = element("canvas");
  paint(canvas, cells, rows, columns);
  canvas.style.width = `${columns * side}px`;
  canvas.style.height = `${rows * side}px`;
  const labels = { rows: [], columns: [] };
  for (const [place, axis, size] of [[left, "rows", "height"], [top, "columns", "width"]]) {
    names[axis].forEach((name) => {
      const label = element("span", side >= 9 ? shown(name) : "");
      label.style[size] = `${side}px`;
      label.style.fontSize = `${Math.min(13, side)}px`;
      labels[axis].push(label);
      place.append(label);
    });
  }
  canvas.addEventListener("pointermove", (event) => {
    const frame = canvas.getBoundingClientRect();
    const column = Math.max(0, Math.min(columns - 1, Math.floor((event.clientX - frame.left) / side)));
    const row = Math.max(0, Math.min(rows - 1, Math.floor((event.clientY - frame.top) / side)));
    labels.rows.forEach((label, index) => label.classList.toggle("on", index === row));
    labels.columns.forEach((label, index) => label.classList.toggle("on", index === column));
    tell(row, column, cells[row * columns + column] / 255);
  });
  box.append(element("div"), top, left, canvas);
  return box;
}

function showValue(row, column, weight) {
  const one = weightsOf.get(view.kind);
  const writes = data.steps[row] ? ` (writing \u2068${shown(data.steps[row].token)}\u2069)` : "";
  const query = `\u2068${shown(one.queries[row])}\u2069${view.kind === "encoder_self" ? "" : writes}`;
  byId("value").textContent = `${query} looks at \u2068${shown(one.keys[column])}\u2069: ${weight.toFixed(3)}`;
}

function drawHeads() {
  const one = weightsOf.get(view.kind);
  const help = `Under each: entropy in bits, mean distance in tokens, share on the ${END_NAMES[view.kind]} token.`;
  byId("heads-help").textContent = one.mean_only
    ? `More than 200 tokens on a side: only the mean of each layer's heads is in this page. ${help}`
    : help;
  byId("heads").replaceChildren();
  one.heads.forEach((heads, layer) => {
    const line = element("div", "", "head-row");
    line.append(element("b", `L${layer + 1}`));
    heads.forEach((facts, head) => line.append(thumbnail(one, layer, head, facts)));
    byId("heads").append(line);
  });
}

function thumbnail(one, layer, head, facts) {
  const button = element("button", "", "head");
  const name = one.mean_only ? "mean" : head;
  button.type = "button";
  button.dataset.layer = layer;
  button.dataset.head = name;
  button.setAttribute("aria-label", `layer ${layer + 1}, head ${one.mean_only ? "mean" : head + 1}`);
  const canvas = element("canvas");
  paint(canvas, cellsOf(view.kind, layer, head), one.queries.length, one.keys.length);
  button.append(canvas, element("small", `${facts.entropy_bits.toFixed(1)} bit · ${facts.distance.toFixed(1)}`));
  button.append(element("small", `${END_NAMES[view.kind]} ${percent(facts.end_share)}`));
  button.addEventListener("click", () => {
    view.layer = layer;
    view.head = name;
    drawMatrixPart();
  });
  return button;
}

function moveHead(layers, heads) {
  const one = weightsOf.get(view.kind);
  const names = headNames(one);
  view.layer = (view.layer + layers + one.num_layers) % one.num_layers;
  view.head = names[(names.indexOf(view.head) + heads + names.length) % names.length];
  drawMatrixPart();
}
