// Asking the server: JSON, one error with the server's own words, and one more try where it says to wait.

const KEY = "dragoman-key";
export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (value) => sessionStorage.setItem(KEY, value),
};

const wait = (seconds, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is it still running?");
  }
  const body = await response.json().catch(() => ({}));
  return { response, body };
}

export async function ask(path, fields = null, { signal, onWait } = {}) {
  const body = fields && JSON.stringify(key.get() ? { ...fields, api_key: key.get() } : fields);
  const options = fields ? { method: "POST", headers: { "Content-Type": "application/json" }, body, signal } : { signal };
  for (let attempt = 0; ; attempt++) {
    const { response, body: answer } = await answered(path, options);
    if (response.ok) return answer;
    const seconds = Number(response.headers.get("Retry-After"));
    if ((response.status !== 503 && response.status !== 429) || attempt > 4 || !(seconds > 0)) {
      throw new Error(answer.error || `The server answered ${response.status}.`);
    }
    onWait?.(seconds);
    await wait(Math.min(seconds, 20), signal);
  }
}

export async function upload(path, form) {
  if (key.get()) form.set("api_key", key.get());
  const { response, body } = await answered(path, { method: "POST", body: form });
  if (!response.ok) throw new Error(body.error || `The server answered ${response.status}.`);
  return body;
}
