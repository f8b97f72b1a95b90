// Files: sent, watched while they are translated, and offered for download.

import { ask, upload } from "./server.js";

const EVERY_SECONDS = 0.5;

export async function translateFile(file, source, target, list) {
  const item = document.createElement("li");
  const [label, bar, note] = ["span", "progress", "span"].map((tag) => document.createElement(tag));
  label.textContent = file.name;
  bar.setAttribute("aria-label", `Progress of ${file.name}`);
  note.className = "quiet";
  item.append(label, bar, note);
  list.prepend(item);
  try {
    const form = new FormData();
    form.set("file", file);
    form.set("source", source);
    form.set("target", target);
    let job = await upload("v1/files", form);
    while (job.status === "translating") {
      if (job.sentences) {
        [bar.max, bar.value] = [job.sentences, job.translated];
        note.textContent = `${job.translated} of ${job.sentences} sentences`;
      }
      await new Promise((resolve) => setTimeout(resolve, 1000 * EVERY_SECONDS));
      job = await ask(`v1/files/${job.id}`);
    }
    if (job.status === "error") throw new Error(job.error);
    bar.remove();
    const link = document.createElement("a");
    link.href = job.url.replace(/^\//, "");
    link.download = "";
    link.textContent = "Download";
    note.textContent = `${job.sentences} sentences`;
    item.append(link);
  } catch (error) {
    bar.remove();
    note.textContent = error.message;
  }
}
