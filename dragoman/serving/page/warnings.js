// What the server says of a translation that may be wrong.
const FLAGS = {
  loop: "it repeats itself",
  copied: "much of the text stands in it untranslated",
  cut: "it reached the limit of its length and was cut",
  short: "it is much shorter than the text",
  long: "it is much longer than the text",
  number: "a number is missing or is another",
  url: "an address is missing or is another",
  tag: "a tag or placeholder is missing or is another",
  characters: "the model does not know some characters of the text",
  unsure: "the model was not sure of it",
};

export function warnings(answer) {
  const found = (answer?.flags || []).map((flag) => FLAGS[flag]).filter(Boolean);
  if (answer?.lost?.length) found.push(`it lacks ${answer.lost.map((piece) => `\u2068${piece}\u2069`).join(", ")}`);
  return found.length ? `Check the translation: ${found.join("; ")}.` : "";
}
