// Source and translation as words or subwords. Pointing at a unit shades the other side by attention weight.

const sentence = { unit: "words", pinned: null, here: null, units: {}, nodes: {} };

function unitsOf(side) {
  if (sentence.unit === "words") return data[side].words;
  return data[side].tokens.map((text, index) => ({ text, start: index, stop: index + 1 }));
}

// Attention weight from target unit t to source unit s: the sum over the tokens of s, averaged over the tokens of t.
function linkWeight(t, s) {
  const target = sentence.units.tgt[t];
  const source = sentence.units.src[s];
  const width = data.src.tokens.length;
  let sum = 0;
  for (let row = target.start; row < target.stop; row++) {
    for (let column = source.start; column < source.stop; column++) sum += links[row * width + column];
  }
  return Math.min(1, sum / 255 / (target.stop - target.start));
}

function drawSentence() {
  for (const side of ["src", "tgt"]) {
    sentence.units[side] = unitsOf(side);
    const place = byId(side);
    place.replaceChildren();
    place.dir = isRightToLeft(data[side].text) ? "rtl" : "ltr";
    const starts = new Set(data[side].words.map((word) => word.start));
    sentence.nodes[side] = sentence.units[side].map((unit, index) => {
      const node = element("button", shown(unit.text), "word");
      node.type = "button";
      node.dataset.side = side;
      node.dataset.index = index;
      if (!starts.has(unit.start)) node.classList.add("inside");
      if (notedTokens(side).has(unit.start)) node.classList.add("noted");
      node.addEventListener("pointerenter", () => look(side, index));
      node.addEventListener("pointerleave", () => look(null));
      node.addEventListener("focus", () => look(side, index));
      node.addEventListener("blur", () => look(null));
      node.addEventListener("click", () => pin(side, index));
      place.append(node);
      return node;
    });
  }
  refresh();
}

const NOTED_KINDS = ["uncovered", "repeated", "unknown"];

function notedTokens(side) {
  const found = new Set();
  for (const note of data.notes.filter((one) => NOTED_KINDS.includes(one.kind))) {
    for (const number of note[`${side}_words`]) {
      const word = data[side].words[number];
      for (let token = word.start; token < word.stop; token++) found.add(token);
    }
  }
  return found;
}

function look(side, index) {
  sentence.here = side === null ? null : { side, index };
  refresh();
}

function pin(side, index) {
  const same = sentence.pinned && sentence.pinned.side === side && sentence.pinned.index === index;
  sentence.pinned = same ? null : { side, index };
  refresh();
}

function refresh() {
  const chosen = sentence.here || sentence.pinned;
  for (const side of ["src", "tgt"]) {
    sentence.nodes[side].forEach((node, index) => {
      unshade(node);
      const is = (one) => Boolean(one) && one.side === side && one.index === index;
      node.classList.toggle("here", is(sentence.here));
      node.classList.toggle("pinned", is(sentence.pinned));
      node.setAttribute("aria-pressed", is(sentence.pinned));
      if (chosen && chosen.side !== side) {
        shade(node, side === "src" ? linkWeight(chosen.index, index) : linkWeight(index, chosen.index));
      }
    });
  }
  drawLines(chosen);
  byId("chosen").textContent = chosen ? describe(chosen) : "Point at a word to see its attention weights. Click or tap it to keep them.";
}

function describe({ side, index }) {
  const other = side === "src" ? "tgt" : "src";
  const weight = (at) => (side === "src" ? linkWeight(at, index) : linkWeight(index, at));
  const ranked = sentence.units[other].map((unit, at) => [weight(at), shown(unit.text).trim()]);
  const best = ranked.sort((one, two) => two[0] - one[0]).slice(0, 3);
  const listed = best.map(([value, text]) => `\u2068${text}\u2069 ${value.toFixed(2)}`).join(", ");
  const word = `\u2068${shown(sentence.units[side][index].text).trim()}\u2069`;
  if (side === "src") return `${word} gets attention from ${listed}`;
  const unit = sentence.units.tgt[index];
  const steps = data.steps.slice(unit.start, unit.stop);
  const probability = steps.reduce((product, step) => product * step.probability, 1);
  return `${word} attends to ${listed}; probability ${percent(probability)}`;
}

function drawLines(chosen) {
  const svg = byId("lines");
  svg.replaceChildren();
  if (!chosen) return;
  const frame = svg.getBoundingClientRect();
  const one = sentence.nodes[chosen.side][chosen.index].getBoundingClientRect();
  const other = chosen.side === "src" ? "tgt" : "src";
  sentence.nodes[other].forEach((node, index) => {
    const weight = chosen.side === "src" ? linkWeight(index, chosen.index) : linkWeight(chosen.index, index);
    if (weight < 0.08) return;
    const two = node.getBoundingClientRect();
    const [above, below] = chosen.side === "src" ? [one, two] : [two, one];
    const from = [above.left + above.width / 2 - frame.left, above.bottom - frame.top];
    const to = [below.left + below.width / 2 - frame.left, below.top - frame.top];
    const middle = (from[1] + to[1]) / 2;
    const shape = `M${from[0]},${from[1]} C${from[0]},${middle} ${to[0]},${middle} ${to[0]},${to[1]}`;
    drawSvg("path", { d: shape, "stroke-width": 0.5 + 6 * weight }, svg);
  });
}

function drawNotes() {
  const list = byId("notes");
  for (const note of data.notes) {
    const item = element("li", note.text);
    item.dataset.kind = note.kind;
    for (const side of ["src", "tgt"]) {
      const words = note[`${side}_words`].map((number) => shown(data[side].words[number].text));
      if (words.length && !(note.kind === "copied" && side === "src")) {
        words.forEach((word, index) => {
          item.append(index ? ", " : " ");
          item.append(element("bdi", word, "mention"));
        });
      }
    }
    list.append(item);
  }
  if (!data.notes.length) list.append(element("li", "The checks found nothing: words with little attention, improbable or unknown words, repetitions, length, copied words.", "fine"));
}
