// Files: sent, watched while they are translated, and offered for download.

import { ask, upload } from "./server.js";

const EVERY_SECONDS = 0.5;

export async function translateFile(file, source, target, list, onError) {
  const [item, label, bar, note] = ["li", "bdi", "progress", "span"].map((tag) => document.createElement(tag));
  label.textContent = file.name;
  bar.setAttribute("aria-label", `Progress of ${file.name}`);
  note.className = "quiet";
  note.setAttribute("aria-live", "off"); // the list says aloud what is new in it: the end, not every step
  item.append(label, bar, note);
  list.prepend(item);
  try {
    const job = await translated(file, source, target, (words, share) => {
      note.textContent = words;
      if (share) bar.value = share;
    });
    const link = document.createElement("a");
    link.href = job.url.replace(/^\//, "");
    link.download = "";
    link.textContent = `Download ${job.url.split(".").slice(1).join(".")}`;
    finish(item, `${counted(job.sentences)} translated`, "quiet").after(link);
  } catch (error) {
    finish(item, error.message, "wrong");
    onError(error.message);
  }
}

const counted = (count) => `${count.toLocaleString("en")} sentence${count === 1 ? "" : "s"}`;

async function translated(file, source, target, tell) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ file, source, target })) form.set(name, value);
  let job = await upload("v1/files", form, tell);
  while (job.status === "translating") {
    if (job.sentences) tell(`${job.translated.toLocaleString("en")} of ${counted(job.sentences)}`, job.translated / job.sentences);
    await new Promise((resolve) => setTimeout(resolve, 1000 * EVERY_SECONDS));
    job = await ask(`v1/files/${job.id}`);
  }
  if (job.status === "error") throw new Error(job.error);
  return job;
}

// What is left of a line once the file is done.
function finish(item, words, name) {
  const end = document.createElement("span");
  end.className = name;
  end.textContent = words;
  item.replaceChildren(item.firstChild, end);
  return end;
}
