#!/usr/bin/env node
// JavaScript without packages: an answer as it is written.
const url = process.argv[2] ?? "http://127.0.0.1:8080";
const answer = await fetch(`${url}/v1/chat/completions`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({
    messages: [{ role: "user", content: "List five animals." }],
    max_tokens: 60,
    stream: true,
  }),
});
let rest = "";
for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
  const events = (rest + piece).split("\n\n");
  rest = events.pop();
  for (const event of events) {
    const data = event.replace(/^data: /, "");
    if (data !== "[DONE]") process.stdout.write(JSON.parse(data).choices[0]?.delta.content ?? "");
  }
}
console.log();
