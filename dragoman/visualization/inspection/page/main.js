// Builds the page and handles events.


function drawAll() {
  readScale();
  for (const bar of document.querySelectorAll(".scale")) paint(bar, Uint8Array.from(Array(256).keys()), 1, 256);
  drawSentence();
  drawMatrixPart();
  drawHeads();
  drawOpinions();
}

function choose(unit) {
  sentence.unit = unit;
  sentence.pinned = sentence.here = null;
  byId("by-words").setAttribute("aria-pressed", unit === "words");
  byId("by-tokens").setAttribute("aria-pressed", unit === "tokens");
  drawSentence();
}

function addKinds() {
  for (const kind of weightsOf.keys()) {
    const button = element("button", KIND_NAMES[kind]);
    button.type = "button";
    button.dataset.kind = kind;
    button.addEventListener("click", () => {
      view.kind = kind;
      view.cell = null;
      drawMatrixPart();
      drawHeads();
      drawMatrixPart();
    });
    byId("kinds").append(button);
  }
}

function onKey(event) {
  if (!(event.key in MOVES) || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.defaultPrevented || event.target.tagName === "SELECT") return;
  const heads = byId("heads-part");
  if (!heads.matches(":hover") && !heads.contains(document.activeElement)) return;
  event.preventDefault();
  moveHead(...MOVES[event.key]);
}

const languages = [data.src_lang, data.tgt_lang].filter(Boolean).join(" to ");
byId("about").textContent = [languages, data.model].filter(Boolean).map(shown).join(" · ");
document.title = `${shown(data.tgt.text).slice(0, 60)} · Dragoman`;
byId("reading").textContent =
  `Shades and lines show the mean of the heads of decoder layer ${data.layer + 1} at the step that predicts the word, as in \`translate --alignment\`.`;
if (data.reference) {
  byId("reference").hidden = false;
  byId("reference-text").textContent = shown(data.reference);
  byId("reference-text").dir = isRightToLeft(data.reference) ? "rtl" : "ltr";
}
view.layer = data.layer;
addKinds();
goByCell(byId("matrix"));
drawNotes();
drawForced();
drawSteps();
drawBest();
drawBeam();
drawAll();

byId("by-words").addEventListener("click", () => choose("words"));
byId("by-tokens").addEventListener("click", () => choose("tokens"));
byId("layer").addEventListener("change", (event) => {
  view.layer = Number(event.target.value);
  drawMatrixPart();
});
byId("head").addEventListener("change", (event) => {
  view.head = parseHead(event.target.value);
  drawMatrixPart();
});
byId("stretch").addEventListener("change", (event) => {
  view.stretched = event.target.checked;
  drawMatrixPart();
});
addEventListener("keydown", onKey);
addEventListener("resize", () => {
  drawLines(sentence.here || sentence.pinned);
  drawMatrixPart();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
