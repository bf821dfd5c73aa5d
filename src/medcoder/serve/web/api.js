// Calls of the service. Errors carry what the service said, never less.

import { h } from "./dom.js";
import { ask } from "./dialog.js";
import { keep, recall } from "./kept.js";

const BASE = new URL("v1/", document.baseURI);
const TRIES = 3; // of a busy service
const SOON = 5; // seconds that one waits without a word
let asking = null;

export class ApiError extends Error {
  constructor(message, status, body) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.body = body;
    this.detail = body?.error ?? {};
  }
}

export async function get(path, query, options) {
  return (await send("GET", path, { query, ...options })).json();
}

export async function post(path, body, options) {
  return (await send("POST", path, { body, ...options })).json();
}

export async function remove(path) {
  await send("DELETE", path, {});
}

export async function send(method, path, { query, body, signal } = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") url.searchParams.append(name, one);
    }
  }
  for (let attempt = 1; ; attempt += 1) {
    const answer = await once(method, url, body, signal);
    if (answer.ok) return answer;
    if (answer.status === 401) {
      await token();
      continue;
    }
    const later = Number(answer.headers.get("Retry-After")) || 1;
    if ((answer.status === 503 || (answer.status === 429 && later <= SOON)) && attempt < TRIES) {
      await wait(Math.min(SOON, later), signal);
      continue;
    }
    throw await asError(answer);
  }
}

async function once(method, url, body, signal) {
  const headers = { Accept: "application/json" };
  const known = recall("token", null, sessionStorage);
  if (known) headers.Authorization = `Bearer ${known}`;
  let content;
  if (body instanceof FormData) content = body;
  else if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    content = JSON.stringify(body);
  }
  try {
    return await fetch(url, { method, headers, body: content, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The service does not answer. Is it running?", 0, null);
  }
}

async function asError(answer) {
  let body = null;
  try {
    body = await answer.json();
  } catch {
    // not JSON: the status has to do
  }
  const said = body?.error?.message ?? `The service answered ${answer.status} ${answer.statusText}`;
  return new ApiError(said, answer.status, body);
}

function wait(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("stopped", "AbortError"));
    });
  });
}

// Asked for once, however many calls need it; kept until the tab is closed.
function token() {
  asking ??= ask("This service asks for a token", (close) => {
    const field = h("input", { type: "password", autofocus: true, required: true, autocomplete: "off", id: "token" });
    return h("form", { onsubmit: (event) => { event.preventDefault(); close(field.value.trim()); } },
      h("label", { for: "token" }, "Token"), field,
      h("p", { class: "soft" }, "Who started the service has it. It stays in this tab."),
      h("div", { class: "buttons" }, h("button", { class: "main" }, "Continue")));
  }).then((value) => {
    asking = null;
    if (!value) throw new ApiError("This service asks for a token", 401, null);
    keep("token", value, sessionStorage);
  }, (error) => { asking = null; throw error; });
  return asking;
}
