// Uploads files, shows their progress and offers the translations for download.

import { ask, download, remove, upload } from "./server.js";

const EVERY_SECONDS = 0.5;
const FINAL = [400, 410, 413]; // statuses of errors that another try does not change

const make = (tag, words = "", kind = "") => Object.assign(document.createElement(tag), { textContent: words, className: kind });
const pathOf = (job) => `v1/files/${job.id}`;
const formatCount = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

export function translateFile(file, options, list, onError) {
  const [item, button, bar, link] = ["li", "button", "progress", "a"].map((tag) => make(tag));
  const [step, again] = [make("span", "", "quiet"), make("button", "Try again")];
  const job = { id: "", fields: { file, ...options }, stop: new AbortController() };
  bar.setAttribute("aria-label", `Progress of ${file.name}`);
  step.setAttribute("aria-live", "off"); // the list announces the end of a translation, not every step
  item.append(make("bdi", file.name), button);
  list.prepend(item);

  const show = (action, ...nodes) => {
    while (button.nextSibling) button.nextSibling.remove();
    button.after(...nodes);
    button.textContent = action;
    button.setAttribute("aria-label", `${action} ${file.name}`);
  };
  const tell = (words, share) => {
    step.textContent = words;
    if (share === undefined) bar.removeAttribute("value");
    else bar.value = share;
  };
  const run = async () => {
    show("Cancel", bar, step);
    try {
      const { segments, notes = [], url } = await translate(job, tell);
      const content = await fetchTranslation(job, url, tell);
      link.href = URL.createObjectURL(content);
      link.download = `${file.name.replace(/\.[a-z]\w{0,4}$/i, "")}_${options.target}${url.slice(url.lastIndexOf("."))}`;
      link.replaceChildren("Download ", make("bdi", link.download));
      const lines = notes.map((words) => make("p", words, "quiet"));
      show("Remove", make("span", `${formatCount(segments, "segment")} translated`, "quiet"), link, ...lines);
    } catch (error) {
      if (job.stop.signal.aborted) return;
      show("Remove", make("span", error.message, "wrong"), ...(FINAL.includes(error.cause) ? [] : [again]));
      onError(error.message);
    }
  };
  button.addEventListener("click", () => {
    const isOver = !bar.isConnected;
    job.stop.abort();
    if (job.id) remove(pathOf(job));
    URL.revokeObjectURL(link.href);
    if (!isOver) return show("Remove", make("span", "Cancelled", "quiet"));
    (item.nextElementSibling || list.previousElementSibling).querySelector("button, input").focus();
    item.remove();
  });
  again.addEventListener("click", () => {
    button.focus();
    run();
  });
  run();
}

// Waits until a file is translated. Uploads it first, unless the server has it from an earlier try.
async function translate(job, tell) {
  const options = { signal: job.stop.signal, onWait: tell };
  const form = new FormData();
  for (const [name, value] of Object.entries(job.fields)) form.set(name, value);
  tell(job.id ? "Trying again" : "Uploading");
  const send = () => upload("v1/files", form, options);
  // The server has dropped a file whose translation it has sent in full, even if not all of it arrived.
  const again = (error) => (error.cause === 404 ? send() : Promise.reject(error));
  let answer = await (job.id ? ask(pathOf(job), null, options).catch(again) : send());
  job.id = answer.id;
  if (options.signal.aborted) await remove(pathOf(job));
  while (answer.status === "translating") {
    const { ahead, translated, segments } = answer;
    if (ahead) tell(`Waiting for ${formatCount(ahead, "other file")}`);
    else if (segments) tell(`${translated.toLocaleString("en")} of ${formatCount(segments, "segment")}`, translated / segments);
    else tell("Reading the file");
    await new Promise((resolve) => setTimeout(resolve, 1000 * EVERY_SECONDS));
    answer = await ask(pathOf(job), null, options);
  }
  if (answer.status === "error") throw new Error(answer.error, { cause: 400 });
  return answer;
}

// Fetches a translation, which the server then deletes. As untyped bytes it is never shown as a page of this server.
async function fetchTranslation(job, url, tell) {
  tell("Fetching the translation", 1);
  const content = await download(url.replace(/^\//, ""), { signal: job.stop.signal, onWait: tell });
  job.id = "";
  return new Blob([content], { type: "application/octet-stream" });
}
