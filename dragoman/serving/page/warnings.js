// Warnings for the flags of a translation.
const FLAGS = {
  loop: "it repeats itself",
  copied: "much of the text is not translated",
  cut: "it was cut at the length limit",
  short: "it is much shorter than the text",
  long: "it is much longer than the text",
  sentence: "a sentence is missing",
  number: "a number is missing or different",
  url: "a URL is missing or different",
  tag: "a tag or placeholder is missing or different",
  characters: "the model does not know some characters of the text",
  unsure: "the model was not sure",
};

export function warnings(answer) {
  const found = (answer?.flags || []).map((flag) => FLAGS[flag]).filter(Boolean);
  if (answer?.lost?.length) found.push(`it is missing ${answer.lost.map((piece) => `\u2068${piece}\u2069`).join(", ")}`);
  return found.length ? `Check the translation: ${found.join("; ")}.` : "";
}
