// Shows a translation word by word, with the model's confidence in each word and its links to source words.
// Text reaches the page through text nodes only.

const byId = (id) => document.getElementById(id);
const nodes = { source: new Map(), target: new Map() };
let shown = [];
let pointed = null;

// Splits a text into words and the white space between them, with the server's definition of white space.
const SPACE = /([\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+)/u;
const pieces = (text) => text.split(SPACE).filter(Boolean);
const isSpace = (piece) => SPACE.test(piece);
const name = (sentence, word) => `${sentence}:${word}`;

function append(parent, text, sentence, side, decorate) {
  let number = 0;
  for (const piece of pieces(text)) {
    if (isSpace(piece)) {
      parent.append(piece);
      continue;
    }
    const node = document.createElement("span");
    node.textContent = piece;
    node.dataset.word = name(sentence, number);
    decorate?.(node, number);
    nodes[side].set(node.dataset.word, node);
    parent.append(node);
    number += 1;
  }
}

// Draws `text` into `parent`, with the words of its sentences as elements and everything between them as plain text.
function drawText(parent, text, sentences, field, side, decorate) {
  parent.replaceChildren();
  nodes[side].clear();
  let place = 0;
  for (const [number, sentence] of sentences.entries()) {
    const start = text.indexOf(sentence[field], place);
    if (start < 0) continue;
    parent.append(text.slice(place, start));
    append(parent, sentence[field], number, side, (node, word) => decorate?.(node, sentence, word));
    place = start + sentence[field].length;
  }
  parent.append(text.slice(place));
}

export function draw(source, text, sentences) {
  shown = sentences;
  drawText(byId("mirror"), source, sentences, "source", "source");
  drawText(byId("output"), text, sentences, "text", "target", (node, sentence, word) => {
    const probability = sentence.words[word];
    node.className = "word";
    node.tabIndex = -1;
    if (probability === null || probability === undefined) return;
    node.style.setProperty("--doubt", `${Math.round(60 * Math.max(0, 1 - probability / 0.9))}%`);
    node.classList.toggle("unsure", probability < 0.4);
    node.dataset.probability = probability;
  });
  stopAt(nodes.target.values().next().value);
  byId("mirror").scrollTop = byId("text").scrollTop;
  point(null);
}

// Removes the words under the source text after an edit, because they no longer match.
export function forget() {
  point(null);
  byId("mirror").replaceChildren();
  nodes.source.clear();
}

export function sentenceOf(node) {
  return node && shown[Number(node.dataset.word.split(":")[0])];
}

function linksOf(side, word) {
  const [sentence, number] = word.split(":").map(Number);
  const [from, to] = side === "source" ? [0, 1] : [1, 0];
  return shown[sentence].alignment.filter((link) => link[from] === number).map((link) => name(sentence, link[to]));
}

// Marks a word of either side (null: none) and the words linked to it.
export function point(node, side) {
  if (node === pointed) return;
  pointed = node;
  for (const one of document.querySelectorAll(".linked, .here")) one.classList.remove("linked", "here");
  byId("word").textContent = "";
  if (!node) return;
  const others = linksOf(side, node.dataset.word);
  node.classList.add(side === "target" ? "here" : "linked");
  const other = side === "source" ? "target" : "source";
  const found = others.map((word) => nodes[other].get(word)).filter(Boolean);
  for (const one of found) one.classList.add("linked");
  byId("word").textContent = describe(node, side, found);
}

function describe(node, side, found) {
  const isolated = (one) => `\u2068${one.textContent}\u2069`;
  const arrow = side === "source" ? "→" : "←";
  const probability = (side === "target" ? node : found[0])?.dataset.probability;
  const sure = probability === undefined ? "" : ` · ${Math.round(100 * probability)}% sure`;
  return [isolated(node), ...(found.length ? [arrow, ...found.map(isolated)] : [])].join(" ") + sure;
}

export const wordAt = (event, side) => {
  if (side === "target") return event.target.closest?.("[data-word]") || null;
  const under = document.elementsFromPoint(event.clientX, event.clientY);
  return under.find((one) => one.dataset?.word && byId("mirror").contains(one)) || null;
};

// The translation is one tab stop, at the word that last had the focus. Arrow keys move between words.
export function stopAt(node) {
  for (const one of byId("output").querySelectorAll("[tabindex='0']")) one.tabIndex = -1;
  if (node) node.tabIndex = 0;
}

export function goToWord(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
  const all = [...nodes.target.values()];
  const here = all.indexOf(document.activeElement);
  if (step === undefined || here < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const forward = getComputedStyle(byId("output")).direction === "rtl" && Number.isFinite(step) ? -step : step;
  const next = all[Math.max(0, Math.min(all.length - 1, here + forward))];
  next.focus();
}
