// The data of the page, and helpers that show text and colours. Text from the data is only inserted as textContent.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

const links = bytesOf(data.links);
const weightsOf = new Map(data.weights.map((one) => [one.kind, { ...one, bytes: bytesOf(one.data) }]));

// Replaces invisible and direction-changing characters by their code points, and cuts long runs of combining marks.
function shown(text) {
  const named = (char) => `‹U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;
  return text
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (char) => (char === "\u200c" || char === "\u200d" ? char : named(char)))
    .replace(/(\p{M}{6})\p{M}+/gu, "$1…");
}

function element(tag, text = "", className = "") {
  const node = document.createElement(tag);
  if (text !== "") node.textContent = text;
  if (className) node.className = className;
  return node;
}

function drawSvg(tag, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  parent.append(node);
  return node;
}

const isRightToLeft = (text) => /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/u.test(text);
function percent(share) {
  if (share >= 0.0995) return `${Math.round(100 * share)}%`;
  return share > 0 && share < 0.0005 ? "<0.1%" : `${(100 * share).toFixed(1)}%`;
}

// The colour scale, from the background to the strongest blue, through five stops of the style sheet.
const scale = new Uint8ClampedArray(256 * 3);

function readScale() {
  const style = getComputedStyle(document.documentElement);
  const stops = [0, 1, 2, 3, 4].map((index) => {
    const hex = style.getPropertyValue(`--scale-${index}`).trim();
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  });
  for (let value = 0; value < 256; value++) {
    const place = (value / 255) * 4;
    const stop = Math.min(3, Math.floor(place));
    for (let part = 0; part < 3; part++) {
      scale[3 * value + part] = stops[stop][part] + (place - stop) * (stops[stop + 1][part] - stops[stop][part]);
    }
  }
}

const channels = (weight) => [0, 1, 2].map((part) => scale[3 * Math.round(255 * Math.min(1, weight)) + part]);

// Above this luminance (WCAG 2), black text is easier to read than white text.
const READ_IN_BLACK = 0.179;
const linear = (channel) => (channel <= 10 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4);

function shade(node, weight) {
  const [red, green, blue] = channels(weight);
  const luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  node.style.backgroundColor = `rgb(${red}, ${green}, ${blue})`;
  node.style.color = luminance > READ_IN_BLACK ? "#000000" : "#ffffff";
  node.dataset.weight = weight.toFixed(3);
}

function unshade(node) {
  node.style.backgroundColor = "";
  node.style.color = "";
  delete node.dataset.weight;
}

// Paints a matrix of bytes with one pixel per cell. The style sheet enlarges the cells.
function paint(canvas, bytes, rows, columns) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let cell = 0; cell < rows * columns; cell++) {
    for (let part = 0; part < 3; part++) image.data[4 * cell + part] = scale[3 * bytes[cell] + part];
    image.data[4 * cell + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}
