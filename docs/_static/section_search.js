/* Ranks the sections of sections.js with BM25 (Robertson and Zaragoza 2009, equation 3.15). Replaces the search of
   Sphinx, whose `Search` object, stemmer and stop words it uses. */
"use strict";
(() => {
  const K1 = 1.2;
  const B = 0.5;
  const TITLE = 9; // a word in a heading counts as often
  const PAGE_TITLE = 3;
  const REST = 0.3; // a word further down the page counts as often for the top of the page
  const NAMED = 4; // factor for the setting, flag or function that the query names
  const INEXACT = 0.4; // weight of words that only resemble a word of the query
  const SYNONYM = 0.7; // weight of words of `SYNONYMS`
  const MOST = 30;
  const EXCERPT = 220; // characters
  // What users type, and the words of our pages for it.
  const SYNONYMS = {
    accelerate: "faster speed",
    alignment: "alignments links",
    casing: "case capitals",
    cluster: "processes",
    confidence: "sure unsure calibrate",
    conversion: "import export",
    convert: "import export",
    crash: "resume killed",
    ddp: "gpus processes",
    dictionary: "glossary terms vocabulary",
    distributed: "gpus processes",
    doc: "word document",
    docx: "word documents",
    download: "fetch",
    encoding: "encodings utf-8",
    fast: "faster",
    finetune: "fine-tune",
    finetuning: "fine-tune",
    forgetting: "replay",
    fp16: "float16 precision",
    gpu: "cuda",
    half: "float16",
    hallucination: "flags loop unsure",
    licence: "license",
    lowercase: "capitals case",
    misaligned: "shifted misalignment",
    monolingual: "back-translation",
    multilingual: "languages",
    odt: "libreoffice",
    oom: "memory",
    overfitting: "patience early",
    parallel: "pairs",
    paragraphs: "lines",
    ram: "memory",
    regularization: "dropout",
    repetition: "repeats loop",
    restart: "resume",
    speed: "faster fast",
    stuck: "learns",
    terminology: "glossary terms",
    truncated: "cut",
    uppercase: "capitals case",
    upper: "capitals",
    version: "versions",
  };
  const stemmer = new Stemmer();
  const stems = new Map();
  let entries = null;
  let postings = null;
  let meanLength = 0;

  const stem = (word) => {
    if (!stems.has(word)) stems.set(word, stemmer.stemWord(word));
    return stems.get(word);
  };
  // `train.warmup_steps` is found by its whole name, without its table, and by each of its words.
  const wordsOf = (text) =>
    (text.toLowerCase().match(/[\p{L}\p{N}]+(?:[_.'’-][\p{L}\p{N}]+)*/gu) || []).flatMap((word) => {
      const parts = word.split(/[_.'’-]/).filter((part) => part.length > 1 || /\d/.test(part));
      const names = word.split(".").filter((name) => name !== word && name.includes("_"));
      return parts.length > 1 ? [word, ...names, ...parts.map(stem)] : [stem(word)];
    });

  const index = (pages) => {
    entries = [];
    postings = new Map();
    let total = 0;
    for (const { url, weight, sections } of pages) {
      const page = sections.length ? sections[0][0] : "";
      sections.forEach(([title, anchor, text], place) => {
        const counts = new Map();
        const count = (words, times) => words.forEach((word) => counts.set(word, (counts.get(word) || 0) + times));
        const body = wordsOf(text);
        count(body, 1);
        count(wordsOf(title), TITLE);
        if (place) count(wordsOf(page), PAGE_TITLE);
        else for (const [, , below] of sections.slice(1)) count(wordsOf(below), REST);
        const number = entries.length;
        const length = body.length + 20;
        total += length;
        entries.push({ url: place ? `${url}#${anchor}` : url, title, page: place ? page : "", text, weight, length });
        counts.forEach((times, word) => {
          if (!postings.has(word)) postings.set(word, []);
          postings.get(word).push([number, times]);
        });
      });
    }
    meanLength = total / entries.length;
  };

  /** Whether one letter more, less or different turns one word into the other. */
  const differsByOne = (one, other) => {
    if (Math.abs(one.length - other.length) > 1) return false;
    let start = 0;
    while (start < one.length && one[start] === other[start]) start++;
    const [rest, otherRest] = [one.slice(start), other.slice(start)];
    return (
      rest.slice(1) === otherRest.slice(1) || rest.slice(1) === otherRest || rest === otherRest.slice(1)
    );
  };
  const isSimilar = (word, known) =>
    known.startsWith(word) ||
    (known.length > 4 && (word.startsWith(known) || (word[0] === known[0] && differsByOne(word, known))));
  const similarWords = (word) => [...postings.keys()].filter((known) => isSimilar(word, known));

  const isIgnored = (word) => stopwords.has(word) || /^(can|do|does|get|how|i|my|need|want|what|why)$/.test(word);
  const synonyms = new Map(Object.entries(SYNONYMS).map(([word, others]) => [stem(word), wordsOf(others)]));

  /** For each word of the query, weights of words to look for: itself and synonyms or, if no page has any, similar ones. */
  const wordsToFind = (query) => {
    const american = query.replace(/(?<=token|normal|regular|custom|optim|visual|organ)is(?=e|ing|ation)/gi, "iz");
    const plain = american.split(/\s+/).filter((word) => !isIgnored(word.toLowerCase()));
    const words = [...new Set(wordsOf(plain.length ? plain.join(" ") : american))];
    return words.map((word) => {
      const known = new Map((synonyms.get(word) || []).map((other) => [other, SYNONYM])).set(word, 1);
      for (const each of known.keys()) if (!postings.has(each)) known.delete(each);
      return known.size ? known : new Map(similarWords(word).map((other) => [other, INEXACT]));
    });
  };

  const plainText = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
  /** Whether a title without spaces, such as `train.learning_rate`, is what the query names: "learning rate". */
  const isNamedBy = (title, query) => !/\s/.test(title) && ` ${plainText(title)}`.endsWith(` ${query}`);

  const rank = (words, query) => {
    const scores = new Map();
    const matched = new Map();
    for (const known of words) {
      const best = new Map();
      for (const [word, weight] of known) {
        const list = postings.get(word);
        const rarity = Math.log(1 + (entries.length - list.length + 0.5) / (list.length + 0.5));
        for (const [number, times] of list) {
          const norm = K1 * (1 - B + (B * entries[number].length) / meanLength);
          const score = weight * rarity * ((times * (K1 + 1)) / (times + norm));
          best.set(number, Math.max(best.get(number) || 0, score));
        }
      }
      best.forEach((score, number) => {
        scores.set(number, (scores.get(number) || 0) + score);
        matched.set(number, (matched.get(number) || 0) + 1);
      });
    }
    // A section with all words is better than one with a single rare word, many times.
    return [...scores]
      .map(([number, score]) => ({
        ...entries[number],
        score:
          score *
          entries[number].weight *
          (isNamedBy(entries[number].title, query) ? NAMED : 1) *
          (matched.get(number) / words.length) ** 1.5,
      }))
      .sort((one, other) => other.score - one.score)
      .slice(0, MOST);
  };

  const excerpt = (text, words) => {
    const isMatch = (part) => wordsOf(part).some((word) => words.has(word));
    const parts = text.split(/(\s+)/);
    const first = Math.max(0, parts.findIndex(isMatch));
    const from = Math.max(0, first - 16);
    const paragraph = document.createElement("p");
    paragraph.className = "context";
    if (from) paragraph.append("… ");
    let length = 0;
    for (const part of parts.slice(from)) {
      if (length > EXCERPT) {
        paragraph.append(" …");
        break;
      }
      length += part.length;
      if (isMatch(part)) paragraph.appendChild(document.createElement("mark")).textContent = part;
      else paragraph.append(part);
    }
    return paragraph;
  };

  Search.query = (query) => {
    if (!entries) index(Search._index);
    const words = wordsToFind(query);
    const results = rank(words, plainText(query));
    const marked = new Set(words.flatMap((known) => [...known.keys()]));
    for (const { url, title, page, text } of results) {
      const item = document.createElement("li");
      const link = item.appendChild(document.createElement("a"));
      link.href = document.documentElement.dataset.content_root + url;
      link.textContent = title;
      if (page) item.appendChild(document.createElement("span")).textContent = ` – ${page}`;
      if (text) item.append(excerpt(text, marked));
      Search.output.append(item);
    }
    Search.stopPulse();
    Search.title.textContent = results.length ? "Search results" : "Nothing found";
    Search.status.setAttribute("role", "status");
    Search.status.textContent = results.length
      ? `The best ${results.length} sections for “${query}”`
      : "No page has these words. Try fewer or other words.";
  };
})();
