// SPDX-License-Identifier: Apache-2.0
// Communication with the server: requests with the key of this tab, streams of events, and the
// one stream of events that all views read.

const place = "llmserve key";

export const key = {
  get: () => sessionStorage.getItem(place) ?? "",
  set: (text) => (text === "" ? sessionStorage.removeItem(place) : sessionStorage.setItem(place, text)),
};

// Called when the server does not know the key, or wants one. A key that may chat only (403) is no
// reason to ask for another one again and again: the page's head says what it may not.
export const keyWanted = new EventTarget();

function headersOf(body, more) {
  const headers = { ...more };
  if (key.get() !== "") headers.authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  return headers;
}

// A server of several models answers /admin for one of them: for this one, where it is named.
let watched = "";
let stream = null; // aborts the stream of events

// Shows another model in the views of /admin, if the server has several.
export function watch(name) {
  if (watched === "" || name === "" || name === watched) return;
  watched = name;
  stream?.abort();
}

// The first model that is loaded; a server of several refuses to answer for none of them.
async function chooseWatched() {
  const { data } = await ask("GET", "v1/models");
  const models = data.filter((model) => model.status !== undefined);
  watched = (models.find((model) => model.status.value === "loaded") ?? models[0])?.id ?? "";
}

// The model that /admin answers for; "": the server has one.
export const watchedModel = () => watched;

export const placeOf = (path) => (watched !== "" && path.startsWith("admin/") && !path.includes("?") ? `${path}?model=${encodeURIComponent(watched)}` : path);

// options: what fetch() takes besides, such as `signal`, and `headers` to add.
export async function send(method, path, body, options = {}) {
  const answer = await fetch(placeOf(path), {
    ...options, method, headers: headersOf(body, options.headers), body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.status === 401) keyWanted.dispatchEvent(new Event("wanted"));
  return answer;
}

// The message of an error answer.
export async function whyOf(answer) {
  const body = await answer.json().catch(() => null);
  return body?.error?.message ?? `the server answered ${answer.status}`;
}

// The answer's JSON; throws an Error with the server's sentence.
export async function ask(method, path, body) {
  const answer = await send(method, path, body);
  if (!answer.ok) throw new Error(await whyOf(answer));
  return answer.json();
}

// The events of a stream, {name, data}, as they come.
export async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const found = { name: "message", data: "" };
      for (const line of event.split("\n")) {
        if (line.startsWith("event: ")) found.name = line.slice(7);
        else if (line.startsWith("data: ")) found.data += line.slice(6);
      }
      if (found.data !== "") yield found;
    }
  }
}

// Sends a chat's request, and gives the data of each event to `take`.
export async function receive(body, take, options) {
  const reply = await send("POST", "v1/chat/completions", body, options);
  if (!reply.ok) throw new Error(await whyOf(reply));
  for await (const event of eventsOf(reply)) {
    if (event.data === "[DONE]") break;
    take(JSON.parse(event.data));
  }
}

const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

// Passes on every event of /admin/events for as long as the page is open. While no events can
// be read it reports a message with the reason, and null when they can be read again.
export async function follow(onEvent, onTrouble) {
  for (let wait = 500; ; wait = Math.min(2 * wait, 5000)) {
    try {
      stream = new AbortController();
      const answer = await send("GET", "admin/events", undefined, { signal: stream.signal });
      if (answer.status === 400 && watched === "") await chooseWatched();
      if (answer.status === 404) watched = ""; // the server has begun again with other models
      if (!answer.ok) {
        onTrouble(await whyOf(answer));
      } else {
        wait = 250;
        onTrouble(null);
        for await (const event of eventsOf(answer)) onEvent(event.name, JSON.parse(event.data));
        onTrouble("the server has ended the stream");
      }
    } catch {
      onTrouble("the server does not answer");
    }
    await pause(wait);
  }
}
