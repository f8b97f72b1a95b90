// Requests to the server: JSON, errors with the server's message, and retries after the time that the server gives.

const KEY = "dragoman-key";
const COOKIE = `${KEY}-${location.port || location.protocol.slice(0, -1)}`; // other ports of a host share its cookies
const COOKIE_SECONDS = 3600;
const MOST_TRIES = 6;
const LONGEST_WAIT_SECONDS = 60;

export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (value) => sessionStorage.setItem(KEY, value),
  // A link has no body, and a key in its URL would stay in histories and logs: pass the key as a cookie.
  giveTo: (path) => {
    const seconds = key.get() ? COOKIE_SECONDS : 0;
    const place = `path=${new URL(path, location).pathname}; max-age=${seconds}; samesite=strict`;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `${COOKIE}=${encodeURIComponent(key.get())}; ${place}${secure}`;
  },
};

const wait = (seconds, signal) =>
  new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });

async function request(path, { read = "json", ...options }) {
  try {
    const response = await fetch(path, options);
    const body = await response[response.ok ? read : "json"]().catch((error) => {
      if (response.ok || error.name === "AbortError") throw error;
      return {};
    });
    return { response, body };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Check that it is running.");
  }
}

// The server's reason for a wait, without its advice to try again.
function reason(error = "") {
  const words = error.replace(/ Try again later\.$/, "").replace(/\.$/, "");
  return `${words && words.length < 200 ? words : "The server is busy"};`;
}

// Retries until there is an answer. `onWait` gets a message before each wait. An error has the server's status as its cause.
async function persist(path, options, onWait, signal = options.signal) {
  for (let attempt = 1; ; attempt++) {
    const { response, body } = await request(path, options);
    if (response.ok) return body;
    const seconds = Number(response.headers.get("Retry-After"));
    const later = [429, 503].includes(response.status) && seconds > 0 && seconds <= LONGEST_WAIT_SECONDS;
    if (!later || attempt === MOST_TRIES) throw new Error(body.error || `The server answered ${response.status}.`, { cause: response.status });
    onWait?.(`${reason(body.error)} trying again in ${seconds} second${seconds === 1 ? "" : "s"}.`);
    await wait(seconds, signal);
  }
}

export function ask(path, fields = null, { signal, onWait } = {}) {
  if (!fields) return persist(path, { signal }, onWait);
  const body = JSON.stringify(key.get() ? { ...fields, api_key: key.get() } : fields);
  return persist(path, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal }, onWait);
}

export const download = (path, { signal, onWait }) => persist(path, { read: "blob", signal }, onWait);

export const remove = (path) => request(path, { method: "DELETE" }).catch(() => {});

// `signal` ends waits only. After a cancelled request, nobody would know the id of a file that the server has in full.
export function upload(path, form, { signal, onWait }) {
  if (key.get()) form.set("api_key", key.get());
  return persist(path, { method: "POST", body: form }, onWait, signal);
}
