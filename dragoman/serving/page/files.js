// Uploads files, shows their progress and offers the translations for download.

import { ask, remove, upload } from "./server.js";

const EVERY_SECONDS = 0.5;

export async function translateFile(file, source, target, list, onError) {
  const [item, label, bar, note, cancel] = ["li", "bdi", "progress", "span", "button"].map((tag) => document.createElement(tag));
  const state = { id: "", cancelled: false };
  label.textContent = file.name;
  bar.setAttribute("aria-label", `Progress of ${file.name}`);
  note.className = "quiet";
  note.setAttribute("aria-live", "off"); // the list announces the end of a translation, not every step
  cancel.type = "button";
  cancel.textContent = "Cancel";
  cancel.setAttribute("aria-label", `Cancel ${file.name}`);
  cancel.addEventListener("click", () => {
    state.cancelled = true;
    if (state.id) remove(`v1/files/${state.id}`).catch(() => {});
    finish(item, "Cancelled", "quiet");
  });
  item.append(label, bar, note, cancel);
  list.prepend(item);
  try {
    const job = await translateOnServer(file, source, target, state, (words, share) => {
      note.textContent = words;
      if (share) bar.value = share;
    });
    if (state.cancelled) return;
    const link = document.createElement("a");
    link.href = job.url.replace(/^\//, "");
    link.download = "";
    link.textContent = `Download ${job.url.split(".").slice(1).join(".")}`;
    finish(item, `${formatCount(job.segments)} translated`, "quiet").after(link);
  } catch (error) {
    if (state.cancelled) return;
    finish(item, error.message, "wrong");
    onError(error.message);
  }
}

const formatCount = (count) => `${count.toLocaleString("en")} segment${count === 1 ? "" : "s"}`;

async function translateOnServer(file, source, target, state, tell) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ file, source, target })) form.set(name, value);
  let job = await upload("v1/files", form, tell);
  state.id = job.id;
  if (state.cancelled) await remove(`v1/files/${job.id}`);
  while (job.status === "translating" && !state.cancelled) {
    if (job.ahead) tell(`Waiting for ${job.ahead} other file${job.ahead === 1 ? "" : "s"}`);
    else if (job.segments) tell(`${job.translated.toLocaleString("en")} of ${formatCount(job.segments)}`, job.translated / job.segments);
    await new Promise((resolve) => setTimeout(resolve, 1000 * EVERY_SECONDS));
    job = await ask(`v1/files/${job.id}`);
  }
  if (job.status === "error") throw new Error(job.error);
  return job;
}

// Replaces the controls of a file in the list by its final state.
function finish(item, words, name) {
  const end = document.createElement("span");
  end.className = name;
  end.textContent = words;
  item.replaceChildren(item.firstChild, end);
  return end;
}
