// The translation page: languages, text, translation after a pause in typing, and the state in the page's URL.

import { translateFile } from "./files.js";
import { ask, key } from "./server.js";
import { warnings } from "./warnings.js";
import * as words from "./words.js";

const PAUSE_SECONDS = 0.35;
const SLOW_SECONDS = 0.4;
const MOST_IN_ADDRESS = 4000;
const MOST_PAIRS_NAMED = 6;
const byId = (id) => document.getElementById(id);
const [source, target, tag, text] = ["source", "target", "tag", "text"].map(byId);
const state = { languages: [], pairs: new Map(), pivot: "", timer: 0, running: null, asked: "", answer: null, detected: "", limit: -1, candidates: 3, inspects: false };

const nameOf = (code) => state.languages.find((one) => one.code === code)?.name || code;

function say(message, wrong = false) {
  byId("status").textContent = message;
  byId("status").classList.toggle("wrong", wrong);
  text.setAttribute("aria-invalid", wrong);
}

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, label]) => new Option(label, value)));
  select.value = options.some(([value]) => value === chosen) ? chosen : options[0]?.[0] || "";
}

const sources = () => state.languages.filter((one) => one.targets.some((code) => code !== one.code));

function targetsOf(code) {
  const from = code === "auto" ? sources() : state.languages.filter((one) => one.code === code);
  const codes = new Set(from.flatMap((one) => one.targets.filter((target) => target !== one.code)));
  return state.languages.filter((one) => codes.has(one.code)).map((one) => [one.code, one.name]);
}

// The models that translate from any of the chosen source languages to the target.
function chosenModels() {
  const codes = source.value === "auto" ? sources().map((one) => one.code) : [source.value];
  const [to, { pairs, pivot }] = [target.value, state];
  return codes.flatMap((from) => {
    const paths = [[`${from}-${to}`], [`${from}-${pivot}`, `${pivot}-${to}`]];
    return (paths.find((path) => path.every((pair) => pairs.has(pair))) || []).map((pair) => pairs.get(pair));
  });
}

function offerTags(chosen) {
  const models = chosenModels();
  const names = new Set(models.flatMap((one) => one.tags));
  const own = [...new Set(models.map((one) => one.tag))].filter(Boolean).join(", ");
  fill(tag, [["", own ? `Default (${own})` : "None"], ...[...names].map((name) => [name, name])], chosen);
  byId("tags").hidden = !names.size;
}

const chosenOptions = () => ({ source: source.value, target: target.value, ...(tag.value && { tag: tag.value }) });

function chooseLanguages(from, to, tagName = tag.value) {
  const options = sources().map((one) => [one.code, one.name]);
  fill(source, options.length > 1 ? [["auto", "Detect language"], ...options] : options, from);
  fill(target, targetsOf(source.value), to);
  text.lang = source.value === "auto" ? "" : source.value;
  byId("output").lang = target.value;
  offerTags(tagName);
  offerSwap();
}

const sourceNow = () => (source.value === "auto" ? state.detected : source.value);

function offerSwap() {
  const back = state.languages.find((one) => one.code === target.value)?.targets || [];
  byId("swap").disabled = !back.some((code) => code !== target.value && (!sourceNow() || code === sourceNow()));
}

// Stores languages, style and text in the URL. A text too long for a URL goes into the browser's history state.
function remember() {
  const query = new URLSearchParams(chosenOptions());
  const whole = new URLSearchParams(query);
  if (text.value) whole.set("q", text.value);
  const address = String(whole).length <= MOST_IN_ADDRESS ? whole : query;
  history.replaceState({ text: text.value }, "", `?${address}`);
}

// Whether the translation on screen belongs to the current text.
const isCurrent = () => !byId("output").classList.contains("stale");

// Disables the actions on a translation while it belongs to an older text.
function age(isOld) {
  byId("output").classList.toggle("stale", isOld);
  byId("others").classList.toggle("stale", isOld);
  byId("others").inert = isOld;
  byId("copy").disabled = isOld || !state.answer?.text;
  offerLook();
}

function count() {
  const size = [...text.value].length;
  const most = state.limit > 0 ? ` of ${state.limit.toLocaleString("en")}` : "";
  byId("count").textContent = `${size.toLocaleString("en")}${most} characters`;
  byId("count").classList.toggle("wrong", state.limit > 0 && size > state.limit);
}

function onChange(seconds = PAUSE_SECONDS) {
  clearTimeout(state.timer);
  state.running?.abort();
  words.forget();
  count();
  age(true);
  state.timer = setTimeout(translate, 1000 * seconds);
}

async function translate() {
  const asked = text.value;
  remember();
  if (!asked.trim()) return show(asked, null);
  state.running = new AbortController();
  const { signal } = state.running;
  const fields = { text: asked, ...chosenOptions(), n_best: state.candidates, alignment: true };
  const started = performance.now();
  const slow = setTimeout(() => say("Translating…"), 1000 * SLOW_SECONDS);
  const onWait = (words) => {
    clearTimeout(slow);
    say(words);
  };
  try {
    const answer = await ask("v1/translate", fields, { signal, onWait });
    if (signal.aborted) return;
    show(asked, answer.translations[0]);
    if (!byId("status").textContent) say(`Translated in ${((performance.now() - started) / 1000).toFixed(2)} seconds.`);
  } catch (error) {
    if (!signal.aborted) showError(error.message);
  } finally {
    clearTimeout(slow);
  }
}

function showError(message) {
  const most = /n_best parameter must be <= ([1-9]\d*)$/.exec(message)?.[1];
  if (most && Number(most) < state.candidates) { // this server gives fewer
    state.candidates = Number(most);
    return translate();
  }
  say(message, true);
  askForKey(message);
}

// Shows the form for an API key if the server's message is about keys.
function askForKey(message) {
  if (/api key/i.test(message)) byId("key-form").hidden = false;
}

function show(asked, answer) {
  [state.asked, state.answer] = [asked, answer];
  words.draw(asked, answer ? answer.text : "", answer?.sentences || []);
  state.detected = answer?.confidence === undefined ? "" : answer.source;
  byId("detected").textContent = state.detected ? `${nameOf(state.detected)}, ${Math.round(answer.confidence)}% sure` : "";
  say(warnings(answer));
  offerSwap();
  showAlternatives(answer);
  age(false);
}

function showAlternatives(answer) {
  const others = (answer?.candidates || []).map((one) => one.text).filter((one) => one !== answer.text);
  byId("others").hidden = !others.length;
  byId("alternatives").replaceChildren(
    ...others.map((other) => {
      const [item, button] = [document.createElement("li"), document.createElement("button")];
      button.type = "button";
      button.dir = "auto";
      button.lang = target.value;
      button.textContent = other;
      button.addEventListener("click", () => take(other));
      item.append(button);
      return item;
    }),
  );
}

// Shows an alternative as the translation, and the previous translation among the alternatives.
function take(other) {
  const { answer } = state;
  const candidates = [{ text: other }, ...answer.candidates.filter((one) => one.text !== other)];
  const first = answer.first || answer;
  const sentences = other === first.text ? first.sentences : [];
  state.answer = { ...answer, first, text: other, sentences, candidates };
  words.draw(text.value, other, sentences);
  showAlternatives(state.answer);
  byId("alternatives").querySelector("button").focus();
  offerLook();
  say(sentences.length ? "" : "Shades and word links are only available for the first translation.");
}

// Links to the inspection page of the sentence with the focus, or else the first. Only for pairs with a single model.
function offerLook() {
  const sentence = words.sentenceOf(document.activeElement.closest?.("#output [data-word]")) || state.answer?.sentences?.[0];
  const offered = state.inspects && isCurrent() && sentence && state.pairs.has(`${state.answer.source}-${target.value}`);
  byId("look").hidden = !offered;
  if (!offered) return;
  const asked = { ...chosenOptions(), source: state.answer.source, text: sentence.source, n_best: state.candidates };
  const query = new URLSearchParams(asked);
  key.giveTo("look");
  byId("look").href = `look?${query}`;
  byId("look").title = sentence.source;
}

// Swaps the languages. The translation becomes the text, unless it belongs to an older text.
function swap() {
  if (byId("swap").disabled) return;
  byId("unknown").hidden = true;
  const [from, to] = [sourceNow(), target.value];
  if (isCurrent() && state.answer?.text) text.value = state.answer.text;
  state.detected = "";
  chooseLanguages(to, from);
  onChange(0);
}

async function copy() {
  try {
    await navigator.clipboard.writeText(state.answer.text);
  } catch { // browsers give a clipboard to pages from localhost or over HTTPS only
    getSelection().selectAllChildren(byId("output"));
    if (!document.execCommand("copy")) return say("The browser blocked copying. The translation is selected: press Ctrl+C.", true);
  }
  say("Copied.");
}

// Reports languages and a style in the URL that the server has no model for, instead of choosing others.
function namesUnknown(from, to, tagName) {
  const known = (!to && !from) || (from === "auto" ? sources() : state.languages.filter((one) => !from || one.code === from))
    .some((one) => one.targets.some((code) => code !== one.code && (!to || code === to)));
  if (known) {
    const isKnown = !tagName || tagName === tag.value;
    return !isKnown && showUnknown(`This server has no style \u2068${tagName}\u2069 for these languages. Choose other languages or another style.`);
  }
  const pair = [from && from !== "auto" && `from ${languageLabel(from)}`, to && `to ${languageLabel(to)}`].filter(Boolean).join(" ");
  return showUnknown(`This server does not translate ${pair}. Choose other languages.`);
}

function showUnknown(message) {
  byId("unknown").textContent = message;
  byId("unknown").hidden = false;
  return true;
}

function languageLabel(code) {
  try {
    return `${state.languages.find((one) => one.code === code)?.name || new Intl.DisplayNames("en", { type: "language" }).of(code)} (${code})`;
  } catch { // not a language code
    return `\u2068${code}\u2069`;
  }
}

// Applies the chosen theme, or else the system's.
function applyTheme() {
  const chosen = localStorage.getItem("dragoman-theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (chosen) document.documentElement.dataset.theme = chosen;
  byId("theme").textContent = dark ? "Light theme" : "Dark theme";
  byId("theme").value = dark ? "light" : "dark";
}

// If Alt types a character (AltGr, or Option on a Mac), event.key is that character and no shortcut matches.
function onKey(event) {
  const alt = event.altKey && !event.ctrlKey && !event.metaKey && event.key.toLowerCase();
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") onChange(0);
  else if (alt === "s") swap();
  else if (alt === "l" && !byId("look").hidden) byId("look").click();
  else return;
  event.preventDefault();
}

function send(files) {
  for (const file of files) translateFile(file, chosenOptions(), byId("jobs"), askForKey);
}

// A file may be dropped anywhere: beside a field the browser would leave the page for it.
function onDrag(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  byId("files").classList.toggle("over", event.type === "dragover");
  if (event.type === "drop") send(event.dataTransfer.files);
}

function listen() {
  text.addEventListener("input", () => onChange());
  text.addEventListener("scroll", () => (byId("mirror").scrollTop = text.scrollTop));
  text.addEventListener("mousemove", (event) => words.point(words.wordAt(event, "source"), "source"));
  text.addEventListener("mouseleave", () => words.point(null));
  const output = byId("output");
  for (const kind of ["mouseover", "focusin", "click"]) {
    output.addEventListener(kind, (event) => {
      words.point(words.wordAt(event, "target"), "target");
      if (kind !== "mouseover") offerLook();
    });
  }
  output.addEventListener("focusin", (event) => words.stopAt(words.wordAt(event, "target")));
  output.addEventListener("mouseleave", () => words.point(document.activeElement.closest("#output [data-word]"), "target"));
  output.addEventListener("focusout", () => words.point(null));
  output.addEventListener("keydown", words.goToWord);
  for (const select of [source, target, tag]) {
    select.addEventListener("change", () => {
      byId("unknown").hidden = true;
      chooseLanguages(source.value, target.value);
      onChange(0);
    });
  }
  byId("swap").addEventListener("click", swap);
  byId("clear").addEventListener("click", () => {
    text.value = "";
    onChange(0);
    text.focus();
  });
  byId("copy").addEventListener("click", copy);
  for (const kind of ["pointerdown", "click"]) byId("look").addEventListener(kind, () => key.giveTo("look")); // the cookie may have expired
  byId("theme").addEventListener("click", () => {
    localStorage.setItem("dragoman-theme", byId("theme").value);
    applyTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    key.set(byId("key").value);
    byId("key-form").hidden = true;
    onChange(0);
  });
  byId("file").addEventListener("change", (event) => {
    send(event.target.files);
    event.target.value = "";
  });
  for (const kind of ["dragover", "dragleave", "drop"]) addEventListener(kind, onDrag);
  addEventListener("keydown", onKey);
}

async function begin() {
  applyTheme();
  listen();
  try {
    const [languages, settings, models] = await Promise.all([ask("languages"), ask("frontend/settings"), ask("v1/models")]);
    state.languages = languages;
    state.limit = settings.charLimit;
    byId("file").accept = settings.supportedFilesFormat.join(",");
    state.inspects = models.inspection;
    state.pairs = new Map(models.models.map((model) => [model.pair, model]));
    state.pivot = models.pivot;
    byId("key-form").hidden = !settings.keyRequired || Boolean(key.get());
    const named = models.models.map((model) => `${nameOf(model.source)} → ${nameOf(model.target)}`);
    const more = named.length > MOST_PAIRS_NAMED ? `, and ${named.length - MOST_PAIRS_NAMED} more` : "";
    byId("about").textContent = named.slice(0, MOST_PAIRS_NAMED).join(", ") + more;
    const query = new URLSearchParams(location.search);
    const asked = query.get("source") || (sources().length > 1 ? "auto" : sources()[0]?.code);
    chooseLanguages(asked, query.get("target") || settings.language.target.code, query.get("tag"));
    text.value = text.value || query.get("q") || history.state?.text || "";
    if (namesUnknown(query.get("source"), query.get("target"), query.get("tag"))) count();
    else onChange(0);
  } catch (error) {
    say(error.message, true);
  }
}

begin();
