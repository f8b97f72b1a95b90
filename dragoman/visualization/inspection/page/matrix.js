// The matrix of one head (or the mean or maximum of a layer's heads), and thumbnails of all heads.

const KIND_NAMES = { cross: "translation → source", encoder_self: "source → source", decoder_self: "translation → translation" };
const END_NAMES = { cross: "end", encoder_self: "end", decoder_self: "start" };
const view = { kind: "cross", layer: 0, head: "mean", cell: null, stretched: false };

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

const parseHead = (text) => (text === "mean" || text === "max" ? text : Number(text));

function drawMatrixPart() {
  const one = weightsOf.get(view.kind);
  view.layer = Math.min(view.layer, one.num_layers - 1);
  if (!headNames(one).includes(view.head)) view.head = "mean";
  fillSelect(byId("layer"), [...Array(one.num_layers).keys()], view.layer);
  fillSelect(byId("head"), headNames(one), view.head);
  for (const button of byId("kinds").children) button.setAttribute("aria-pressed", button.dataset.kind === view.kind);
  const cells = cellsOf(view.kind, view.layer, one.mean_only ? 0 : view.head);
  const names = { rows: one.queries, columns: one.keys };
  const most = view.stretched ? Math.max(1, cells.reduce((one, two) => Math.max(one, two), 0)) : 255;
  const box = grid(cells, names, byId("matrix").clientWidth, showValue, most);
  byId("matrix").replaceChildren(box);
  if (view.cell) box.put(...view.cell);
  byId("scale-end").textContent = view.stretched ? (most / 255).toFixed(3) : "1";
  const name = `Layer ${view.layer + 1}, ${typeof view.head === "number" ? `head ${view.head + 1}` : `${view.head} of the heads`}`;
  byId("value").textContent = name;
  box.querySelector("canvas").setAttribute("aria-label", `${KIND_NAMES[view.kind]}, ${name}: ${names.rows.length} rows, ${names.columns.length} columns`);
  for (const button of byId("heads").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.dataset.layer === String(view.layer) && button.dataset.head === String(view.head));
  }
}

// Pixels of a cell along an axis. Labels stay readable for up to 120 tokens: the matrix scrolls instead of shrinking.
const LARGEST_SIDE = 28;
const leastSide = (count) => (count > 120 ? 5 : 12);

function sidesOf(rows, columns, room) {
  const wide = Math.max(leastSide(columns), Math.min(LARGEST_SIDE, Math.floor((room - 140) / columns)));
  return { rows: rows > 120 ? leastSide(rows) : Math.max(leastSide(rows), wide), columns: wide };
}

// The labels of an axis: one per token, or one per group of narrow tokens, with the text of the middle token.
// Returns a function that marks the label of a token and shows that token's text.
function addLabels(place, names, side, property) {
  const every = side >= 9 ? 1 : 2 * Math.ceil((11 / side - 1) / 2) + 1;
  const labels = [];
  for (let start = 0; start < names.length; start += every) {
    const size = Math.min(every, names.length - start);
    const name = shown(names[start + Math.floor((size - 1) / 2)]);
    const label = element("span", name);
    label.style[property] = `${side * size}px`;
    label.style.fontSize = `${Math.min(13, side * every)}px`;
    labels.push({ label, name });
    place.append(label);
  }
  return (index) => {
    labels.forEach(({ label, name }, group) => {
      const on = group === Math.floor(index / every);
      label.classList.toggle("on", on);
      label.textContent = on ? shown(names[index]) : name;
    });
  };
}

// A matrix with its labels. Calls `tell(row, column, weight)` for the cell under the pointer or the cursor. `most` is the
// weight, as a byte, of the darkest colour.
function grid(cells, names, room, tell, most = 255) {
  const [rows, columns] = [names.rows.length, names.columns.length];
  const side = sidesOf(rows, columns, room);
  const box = element("div", "", "grid");
  const top = element("div", "", "columns");
  const left = element("div", "", "rows");
  const area = element("div", "", "cells");
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${rows} rows, ${columns} columns`);
  paint(canvas, most === 255 ? cells : cells.map((weight) => Math.round((255 * weight) / most)), rows, columns);
  canvas.style.width = `${columns * side.columns}px`;
  canvas.style.height = `${rows * side.rows}px`;
  const cursor = element("div", "", "cursor");
  cursor.hidden = true;
  area.append(canvas, cursor);
  const marks = [addLabels(left, names.rows, side.rows, "height"), addLabels(top, names.columns, side.columns, "width")];
  let here = null;
  const put = (row, column) => {
    here = [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))];
    marks.forEach((mark, axis) => mark(here[axis]));
    cursor.hidden = false;
    cursor.style.top = `${here[0] * side.rows}px`;
    cursor.style.left = `${here[1] * side.columns}px`;
    cursor.style.width = `${side.columns}px`;
    cursor.style.height = `${side.rows}px`;
  };
  const show = (row, column) => {
    put(row, column);
    tell(...here, cells[here[0] * columns + here[1]] / 255);
  };
  canvas.addEventListener("pointermove", (event) => {
    const frame = canvas.getBoundingClientRect();
    show(Math.floor((event.clientY - frame.top) / side.rows), Math.floor((event.clientX - frame.left) / side.columns));
  });
  box.put = put;
  box.move = (down, right) => {
    show(...(here ? [here[0] + down, here[1] + right] : [0, 0]));
    cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  box.append(element("div"), top, left, area);
  return box;
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// Shift and an arrow key move between cells while the box with the grid has the focus.
function goByCell(box) {
  box.tabIndex = 0;
  box.addEventListener("keydown", (event) => {
    if (!event.shiftKey || !(event.key in MOVES)) return;
    event.preventDefault();
    box.querySelector(".grid").move(...MOVES[event.key]);
  });
}

function showValue(row, column, weight) {
  view.cell = [row, column];
  const one = weightsOf.get(view.kind);
  const writes = data.steps[row] ? ` (predicting \u2068${shown(data.steps[row].token)}\u2069)` : "";
  const query = `\u2068${shown(one.queries[row])}\u2069${view.kind === "encoder_self" ? "" : writes}`;
  byId("value").textContent = `${query} → \u2068${shown(one.keys[column])}\u2069: ${weight.toFixed(3)}`;
}

function drawHeads() {
  const one = weightsOf.get(view.kind);
  const help = `Below each head: entropy in bits, mean distance in tokens, weight on the ${END_NAMES[view.kind]} token.`;
  byId("heads-help").textContent = one.mean_only
    ? `More than 200 tokens on a side: this page has only the mean of each layer's heads. ${help}`
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
