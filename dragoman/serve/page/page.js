// The page: languages, the text, what is translated while one pauses, and the address that says all of it.

import { translateFile } from "./files.js";
import { ask, key } from "./server.js";
import * as words from "./words.js";

const PAUSE_SECONDS = 0.35;
const MOST_IN_ADDRESS = 1500;
const ALTERNATIVES = 3;
const byId = (id) => document.getElementById(id);
const [source, target, text] = ["source", "target", "text"].map(byId);
const state = { languages: [], timer: 0, running: null, answer: null, detected: "", limit: -1 };

const nameOf = (code) => state.languages.find((one) => one.code === code)?.name || code;

function say(message, wrong = false) {
  byId("status").textContent = message;
  byId("status").classList.toggle("wrong", wrong);
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

function chooseLanguages(from, to) {
  const options = sources().map((one) => [one.code, one.name]);
  fill(source, options.length > 1 ? [["auto", "Detect language"], ...options] : options, from);
  fill(target, targetsOf(source.value), to);
  text.lang = source.value === "auto" ? "" : source.value;
  byId("output").lang = target.value;
  const from_ = source.value === "auto" ? state.detected : source.value;
  byId("swap").disabled = !sources().some((one) => one.code === target.value && (!from_ || one.targets.includes(from_)));
}

function remember() {
  const query = new URLSearchParams({ source: source.value, target: target.value });
  if (text.value && text.value.length <= MOST_IN_ADDRESS) query.set("q", text.value);
  history.replaceState(null, "", `?${query}`);
}

function changed(seconds = PAUSE_SECONDS) {
  clearTimeout(state.timer);
  state.running?.abort();
  words.forget();
  const size = [...text.value].length;
  byId("count").textContent = state.limit > 0 ? `${size.toLocaleString()} of ${state.limit.toLocaleString()} characters` : `${size.toLocaleString()} characters`;
  byId("output").classList.add("stale");
  remember();
  state.timer = setTimeout(translate, 1000 * seconds);
}

async function translate() {
  const asked = text.value;
  if (!asked.trim()) return show(asked, null);
  state.running = new AbortController();
  const { signal } = state.running;
  const fields = { text: asked, source: source.value, target: target.value, n_best: ALTERNATIVES, alignment: true };
  try {
    const onWait = (seconds) => say(`The server is busy; trying again in ${seconds} seconds.`);
    const answer = await ask("v1/translate", fields, { signal, onWait });
    if (!signal.aborted) show(asked, answer.translations[0]);
  } catch (error) {
    if (signal.aborted) return;
    say(error.message, true);
    if (/api key/i.test(error.message)) byId("key-form").hidden = false;
  }
}

function show(asked, answer) {
  state.answer = answer;
  byId("output").classList.remove("stale");
  words.draw(asked, answer ? answer.text : "", answer?.sentences || []);
  byId("copy").disabled = !answer?.text;
  state.detected = answer?.confidence === undefined ? "" : answer.source;
  byId("detected").textContent = state.detected ? `${nameOf(state.detected)}, ${Math.round(answer.confidence)} % sure` : "";
  say(answer?.flags.includes("cut") ? "The translation reached the limit of its length and was cut." : "");
  chooseLanguages(source.value, target.value);
  showAlternatives(answer);
  offerLook();
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

// Another translation takes the place of the first, which is then offered among the others.
function take(other) {
  const { answer } = state;
  const candidates = [{ text: other }, ...answer.candidates.filter((one) => one.text !== other)];
  const first = answer.first || answer;
  const sentences = other === first.text ? first.sentences : [];
  state.answer = { ...answer, first, text: other, sentences, candidates };
  words.draw(text.value, other, sentences);
  showAlternatives(state.answer);
  offerLook();
  say(sentences.length ? "" : "Shades and links belong to the first translation.");
}

// The page about one sentence: of the word that has the focus, or else the first.
function offerLook() {
  const sentence = words.sentenceOf(document.activeElement.closest?.("#output [data-word]")) || state.answer?.sentences?.[0];
  byId("look").hidden = !sentence;
  if (!sentence) return;
  const query = new URLSearchParams({ source: state.answer.source, target: target.value, text: sentence.source });
  if (key.get()) query.set("api_key", key.get());
  byId("look").href = `look?${query}`;
}

function swap() {
  if (byId("swap").disabled) return;
  const from = source.value === "auto" ? state.detected : source.value;
  const to = target.value;
  if (state.answer?.text) text.value = state.answer.text;
  chooseLanguages(to, from);
  changed(0);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-pressed", theme === "dark");
}

function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") changed(0);
  else if (event.altKey && event.code === "KeyS") swap();
  else if (event.altKey && event.code === "KeyL" && !byId("look").hidden) byId("look").click();
  else return;
  event.preventDefault();
}

function send(files) {
  for (const file of files) translateFile(file, source.value, target.value, byId("jobs"));
}

function listen() {
  text.addEventListener("input", () => changed());
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
  output.addEventListener("mouseleave", () => words.point(null));
  output.addEventListener("focusout", () => words.point(null));
  output.addEventListener("keydown", words.goToWord);
  for (const select of [source, target]) {
    select.addEventListener("change", () => {
      chooseLanguages(source.value, target.value);
      changed(0);
    });
  }
  byId("swap").addEventListener("click", swap);
  byId("clear").addEventListener("click", () => {
    text.value = "";
    changed(0);
    text.focus();
  });
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(state.answer.text).then(() => say("Copied."), () => say("The browser does not allow copying here.", true));
  });
  byId("theme").addEventListener("click", () => {
    const theme = byId("theme").getAttribute("aria-pressed") === "true" ? "light" : "dark";
    localStorage.setItem("dragoman-theme", theme);
    setTheme(theme);
  });
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    key.set(byId("key").value);
    byId("key-form").hidden = true;
    changed(0);
  });
  byId("file").addEventListener("change", (event) => {
    send(event.target.files);
    event.target.value = "";
  });
  const drop = document.querySelector("section:last-of-type");
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") send(event.dataTransfer.files);
    });
  }
  addEventListener("keydown", onKey);
}

async function begin() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(localStorage.getItem("dragoman-theme") || (dark ? "dark" : "light"));
  listen();
  try {
    const [languages, settings, models] = await Promise.all([ask("languages"), ask("frontend/settings"), ask("v1/models")]);
    state.languages = languages;
    state.limit = settings.charLimit;
    byId("key-form").hidden = !settings.keyRequired || Boolean(key.get());
    byId("about").textContent = models.pairs.join(", ");
    const query = new URLSearchParams(location.search);
    const asked = query.get("source") || (sources().length > 1 ? "auto" : sources()[0]?.code);
    chooseLanguages(asked, query.get("target") || settings.language.target.code);
    text.value = query.get("q") || text.value;
    changed(0);
  } catch (error) {
    say(error.message, true);
  }
}

begin();
