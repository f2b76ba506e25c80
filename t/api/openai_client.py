#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official openai client, unchanged, against a server: TAP on stdout.

    openai_client.py http://127.0.0.1:PORT [API key [batches]]

Run by clients.t. The server is t/api/fake_server, whose answers repeat the prompt.
"""
import asyncio
import json
import os
import sys
import time

import openai

# the TAP of the other clients
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
from tap import MODEL, URL, end, ok, raises, same

KEY = sys.argv[2] if len(sys.argv) > 2 else "none"
HELLO = [{"role": "user", "content": "Once upon a time"}]


def text(string):
    """As token ids, a byte each, so that the fake answers with it."""
    return [1] + [3 + byte for byte in string.encode()]


def check_completions(client):
    made = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=4)
    same(made.choices[0].text, " Once upon a time", "a completion")
    same(made.choices[0].finish_reason, "length", "  with its end")
    same(made.usage.total_tokens, 9, "  and usage")
    ok(made._request_id, "  and a request id")
    made = client.completions.create(model=MODEL, prompt=[text("ab"), text("c")], n=2, max_tokens=2)
    same([c.text for c in made.choices], ["ab", "ab", "cc", "cc"], "prompts of ids, n")
    made = client.completions.create(model=MODEL, prompt=text("one two"), stop=[" t"], max_tokens=9)
    same((made.choices[0].text, made.choices[0].finish_reason), ("one", "stop"), "stop")
    made = client.completions.create(model=MODEL, prompt=text("abc"), max_tokens=0, echo=True, logprobs=1)
    same(made.choices[0].logprobs.token_logprobs, [None, -1.0, -2.0, -3.0], "echo with logprobs")
    stream = client.completions.create(model=MODEL, prompt=text("h\u00e9llo"), max_tokens=6, stream=True,
                                       stream_options={"include_usage": True}, extra_body={"ignore_eos": True})
    chunks = list(stream)
    same("".join(c.choices[0].text for c in chunks if c.choices), "h\u00e9llo", "a stream")
    same(chunks[-1].usage.completion_tokens, 6, "  with usage at its end")


def check_chat(client):
    made = client.chat.completions.create(model=MODEL, messages=HELLO, max_completion_tokens=3,
                                          logprobs=True, top_logprobs=2, user="ann", service_tier="flex")
    same(made.choices[0].message.role, "assistant", "a chat")
    same(made.service_tier, "flex", "  in its tier")
    same(len(made.choices[0].logprobs.content), 3, "  with logprobs")
    same(len(made.choices[0].logprobs.content[0].top_logprobs), 2, "  and alternatives")
    stream = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=3, stream=True)
    chunks = list(stream)
    same(chunks[0].choices[0].delta.role, "assistant", "a streamed chat begins with the role")
    same("".join(c.choices[0].delta.content or "" for c in chunks), made.choices[0].message.content,
         "  and has the same text")
    same(chunks[-1].choices[0].finish_reason, "length", "  and an end")
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=HELLO, max_tokens=1, extra_headers={"x-request-id": "mine-1"})
    same(raw.headers.get("x-request-id"), "mine-1", "a raw response")
    # its helper raises where an answer was cut, so this one ends by itself
    with client.chat.completions.stream(model=MODEL, messages=HELLO, max_tokens=60, stop=["time"]) as events:
        final = events.get_final_completion()
    ok(final.choices[0].message.content.endswith("upon a "), "the client's own accumulator")
    same(final.choices[0].finish_reason, "stop", "  with the end")


TOOLS = [{"type": "function", "function": {"name": "weather", "strict": True, "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"], "additionalProperties": False}}}]
CALLS = ('Let me look. <tool_call>{"name": "weather", "arguments": {"place": "Bern"}}</tool_call>'
         '<tool_call>{"name": "weather", "arguments": {"place": "Z\u00fcrich"}}</tool_call><stop>')


def check_tools(client):
    """The fake answers with the message itself where its template prints nothing else."""
    asked = {"model": MODEL, "tools": TOOLS, "stop": ["<stop>"], "messages": [{"role": "user", "content": CALLS}],
             "extra_body": {"chat_template_kwargs": {"only": True}}}
    places = [{"place": "Bern"}, {"place": "Z\u00fcrich"}]
    made = client.chat.completions.create(**asked).choices[0]
    same(made.finish_reason, "tool_calls", "calls of tools")
    same([(c.type, c.function.name, json.loads(c.function.arguments)) for c in made.message.tool_calls],
         [("function", "weather", place) for place in places], "  with their arguments")
    with client.chat.completions.stream(**asked) as events:
        done = [e.parsed_arguments for e in events if e.type == "tool_calls.function.arguments.done"]
        final = events.get_final_completion().choices[0]
    same(done, places, "  streamed, as the client puts them together")
    same((final.finish_reason, final.message.content), ("tool_calls", made.message.content), "  with what was said before")
    asked["messages"] = [{"role": "user", "content": "Hello"}, made.message.model_dump(exclude_none=True)] + [
        {"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in made.message.tool_calls]
    same(client.chat.completions.create(**asked, max_tokens=2).choices[0].message.tool_calls, None, "  and sends them back")


def check_embeddings(client):
    """The client asks for base64 unless it is told otherwise."""
    packed = client.embeddings.create(model=MODEL, input=["Once", "Once upon"])
    plain = client.embeddings.create(model=MODEL, input=["Once", "Once upon"], encoding_format="float")
    same([e.index for e in packed.data], [0, 1], "embeddings")
    ok(all(abs(a - b) < 1e-6 for x, y in zip(packed.data, plain.data) for a, b in zip(x.embedding, y.embedding)),
       "  are the same in both encodings")
    same(abs(sum(x * x for x in packed.data[1].embedding) - 1) < 1e-5, True, "  of length 1")
    same(packed.usage.total_tokens, 5, "  with usage")
    same(len(client.embeddings.create(model=MODEL, input=[5, 6, 7], dimensions=2).data[0].embedding), 2, "  and cut")
    error = raises(openai.BadRequestError,
                   lambda: client.embeddings.create(model=MODEL, input="x", dimensions=3), "  where that is possible")
    same(error.param, "dimensions", "  or else refused")


def check_responses(client):
    made = client.responses.create(model=MODEL, input="Once upon a time", instructions="Tell.", max_output_tokens=5)
    same((made.status, made.incomplete_details.reason), ("incomplete", "max_output_tokens"), "a response")
    ok(made.output_text, "  with text")
    same(made.usage.output_tokens, 5, "  and usage")
    done = client.responses.create(model=MODEL, input=[{"role": "user", "content": "Once upon a time"}],
                                   max_output_tokens=60, extra_body={"stop": ["time"]})
    same(done.status, "completed", "  that comes to its end")
    with client.responses.stream(model=MODEL, input="Once upon a time", max_output_tokens=60,
                                 extra_body={"stop": ["time"]}) as events:
        kinds = [event.type for event in events]
        final = events.get_final_response()
    same(kinds[:2], ["response.created", "response.in_progress"], "the client's own accumulator of events")
    same(kinds[-1], "response.completed", "  to the end")
    same(final.output_text, done.output_text, "  gives the same text")
    raw = list(client.responses.create(model=MODEL, input="Once upon a time", max_output_tokens=5, stream=True))
    same("".join(e.delta for e in raw if e.type == "response.output_text.delta"), raw[-1].response.output_text,
         "a stream's deltas are its text")
    if "batches" not in sys.argv[3:]:
        error = raises(openai.BadRequestError,
                       lambda: client.responses.create(model=MODEL, input="x", previous_response_id="resp_1"),
                       "an earlier response")
        same(error.param, "previous_response_id", "  is not kept")


def check_stored_responses(client):
    """The fake's answers are their prompts, cut: what they go on from is in them."""
    first = client.responses.create(input="Once upon a time", max_output_tokens=12, model=MODEL)
    ok(first.store, "a response is stored")
    got = client.responses.retrieve(first.id)
    same(got.model_dump(), first.model_dump(), "  and the same when it is asked for")
    second = client.responses.create(input=[{"role": "user", "content": "And then?"}], previous_response_id=first.id,
                                     max_output_tokens=70, model=MODEL)
    same(second.previous_response_id, first.id, "one that goes on from it")
    ok("Once upon a time" in second.output_text and "And then?" in second.output_text, "  knows what was said")
    with client.responses.stream(input="Why?", previous_response_id=second.id, max_output_tokens=300, model=MODEL,
                                 extra_body={"stop": ["Why?"]}) as events:
        third = events.get_final_response()
    ok("Once upon a time" in third.output_text and "And then?" in third.output_text, "a stream that goes on from that, too")
    same(client.responses.retrieve(third.id).output_text, third.output_text, "  and is stored")
    items = list(client.responses.input_items.list(third.id, order="asc", limit=2))
    same([(i.type, i.role) for i in items], [("message", "user"), ("message", "assistant")] * 2 + [("message", "user")],
         "its input items are the conversation, page by page")
    same([items[0].content[0].text, items[2].content[0].text, items[4].content[0].text],
         ["Once upon a time", "And then?", "Why?"], "  with their texts")
    same([i.id for i in client.responses.input_items.list(third.id)], [i.id for i in reversed(items)], "  the newest first")
    same(len({i.id for i in items}), 5, "  with an id each")
    client.responses.delete(second.id)
    raises(openai.NotFoundError, lambda: client.responses.retrieve(second.id), "one that is deleted is gone")
    error = raises(openai.NotFoundError, lambda: client.responses.create(input="x", previous_response_id=third.id, model=MODEL),
                   "  and what went on from it ends")
    same(error.param, "previous_response_id", "  and says why")
    raises(openai.BadRequestError, lambda: client.responses.cancel(first.id), "only what runs in the background is cancelled")
    loose = client.responses.create(input="Once", store=False, max_output_tokens=2, model=MODEL)
    same(loose.store, False, "store: false")
    raises(openai.NotFoundError, lambda: client.responses.retrieve(loose.id), "  is not stored")


def check_background(client):
    made = client.responses.create(input="Once upon a time", background=True, max_output_tokens=12, model=MODEL)
    ok(made.status in ("queued", "in_progress"), "a response in the background")
    while made.status in ("queued", "in_progress"):
        made = client.responses.retrieve(made.id)
    same((made.status, made.usage.output_tokens), ("incomplete", 12), "  is polled")
    stream = client.responses.create(input="Once upon a time", background=True, stream=True, max_output_tokens=30, model=MODEL)
    head = []
    for event in stream:
        head.append(event)
        if event.type == "response.output_text.delta":
            break
    stream.close()
    given = head[0].response.id
    rest = list(client.responses.retrieve(given, stream=True, starting_after=head[-1].sequence_number))
    text = "".join(e.delta for e in head + rest if e.type == "response.output_text.delta")
    same(text, client.responses.retrieve(given).output_text, "a stream that breaks is taken up again")
    same([e.sequence_number for e in head + rest], list(range(len(head + rest))), "  at the next event")
    long = client.responses.create(input="Once", background=True, max_output_tokens=300, model=MODEL)
    same(client.responses.cancel(long.id).status, "cancelled", "one is cancelled")


def check_compaction(client):
    made = client.responses.compact(model=MODEL, input=[{"role": "user", "content": "Once upon"}, {"role": "assistant", "content": "A time"}])
    same((made.object, [i.type for i in made.output]), ("response.compaction", ["message", "compaction"]), "a compaction")
    said = client.responses.create(model=MODEL, input=[i.to_dict() for i in made.output] + [{"role": "user", "content": "Go on"}],
                                   max_output_tokens=100)
    ok("Once upon" in said.output_text and "Summary of the conversation so far" in said.output_text, "  from which a response goes on")


def check_conversations(client):
    talk = client.conversations.create(items=[{"role": "user", "content": "Once upon"}], metadata={"topic": "tales"})
    same(client.conversations.retrieve(talk.id).metadata, {"topic": "tales"}, "a conversation")
    said = client.responses.create(input="Go on", conversation=talk.id, max_output_tokens=40, model=MODEL)
    ok("Once upon" in said.output_text, "  whose items a response sees")
    items = list(client.conversations.items.list(talk.id, order="asc", limit=1))
    same([i.content[0].text for i in items], ["Once upon", "Go on", said.output_text], "  and adds to, page by page")
    same(client.conversations.items.retrieve(items[1].id, conversation_id=talk.id).id, items[1].id, "an item")
    client.conversations.items.delete(items[0].id, conversation_id=talk.id)
    more = client.conversations.items.create(talk.id, items=[{"role": "user", "content": "And more"}])
    same([i.content[0].text for i in more.data], ["And more"], "one that is added")
    same(len(list(client.conversations.items.list(talk.id))), 3, "  and one that is removed")
    same(client.conversations.update(talk.id, metadata={"a": "b"}).metadata, {"a": "b"}, "it is changed")
    ok(client.conversations.delete(talk.id).deleted, "  and deleted")


def check_errors(client):
    error = raises(openai.BadRequestError,
                   lambda: client.completions.create(model=MODEL, prompt="x", temperature=-1), "a bad request")
    same((error.param, error.type), ("temperature", "invalid_request_error"), "  says of what")
    error = raises(openai.BadRequestError,
                   lambda: client.completions.create(model=MODEL, prompt=[5] * 600), "a long prompt")
    same(error.code, "context_length_exceeded", "  has its code")
    raises(openai.NotFoundError, lambda: client.completions.create(model="gpt-4", prompt="x"), "another model")
    raises(openai.RateLimitError,
           lambda: client.completions.create(model=MODEL, prompt="x", extra_headers={"x-request-id": "full-1"}),
           "a full queue")
    raises(openai.InternalServerError,
           lambda: client.completions.create(model=MODEL, prompt="x", extra_headers={"x-request-id": "failnow-1"}),
           "an engine that fails")

    def read_all():
        list(client.completions.create(model=MODEL, prompt="x", stream=True, extra_headers={"x-request-id": "fail-1"}))
    raises(openai.APIError, read_all, "a stream that fails in the middle")


def check_models(client):
    same([m.id for m in client.models.list()], [MODEL], "the models")
    same(client.models.retrieve(MODEL).owned_by, "llmserve", "one of them")


def batch_line(number):
    body = {"model": MODEL, "prompt": text(f"line {number}"), "max_tokens": 6}
    return json.dumps({"custom_id": f"n{number}", "method": "POST", "url": "/v1/completions", "body": body})


def check_batches(client):
    lines = "\n".join(batch_line(i) for i in range(50)).encode()
    file = client.files.create(file=("lines.jsonl", lines), purpose="batch")
    same((file.filename, file.bytes), ("lines.jsonl", len(lines)), "a file")
    same(client.files.content(file.id).read(), lines, "  with its content")
    ok(file.id in [f.id for f in client.files.list(purpose="batch")], "  in the list")
    later = [client.files.create(file=(f"{i}.jsonl", b"x"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 7200})
             for i in range(3)]
    same([f.expires_at - f.created_at for f in later], [7200] * 3, "files that expire")
    same(file.expires_at, None, "  and one that does not")
    same([f.id for f in client.files.list(limit=2)], [f.id for f in reversed([file, *later])], "a list of two pages")
    same([f.id for f in client.files.list(limit=1, order="asc", after=file.id)], [f.id for f in later], "  from the oldest on")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h",
                                  metadata={"name": "fifty"})
    end = time.monotonic() + 60
    while batch.status in ("validating", "in_progress", "finalizing") and time.monotonic() < end:
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    same((batch.status, batch.request_counts.completed), ("completed", 50), "a batch")
    made = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    same({m["custom_id"]: m["response"]["body"]["choices"][0]["text"] for m in made},
         {f"n{i}": f"line {i}"[:6] for i in range(50)}, "  with every answer")
    same([b.id for b in client.batches.list(limit=1)], [batch.id], "  in the list")
    raises(openai.ConflictError, lambda: client.batches.cancel(batch.id), "a batch that is over is not cancelled")
    ok(client.files.delete(file.id).deleted, "a file is deleted")
    raises(openai.NotFoundError, lambda: client.files.retrieve(file.id), "  and gone")


async def check_async():
    async with openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as client:
        made = await asyncio.gather(*[
            client.completions.create(model=MODEL, prompt=text(f"number {i}"), max_tokens=8) for i in range(20)])
        same([m.choices[0].text for m in made], [f"number {i}"[:8] for i in range(20)], "twenty at once")

        async def read(i):
            stream = await client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=5, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])
        texts = await asyncio.gather(*[read(i) for i in range(20)])
        same(len(set(texts)), 1, "twenty streams at once")
        ok(texts[0], "  with text")

        stream = await client.completions.create(model=MODEL, prompt=text("x"), max_tokens=400, stream=True)
        async for _ in stream:
            break
        await stream.close()
        ok(True, "a stream that is closed early")


def main():
    client = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)
    check_completions(client)
    check_chat(client)
    check_tools(client)
    check_embeddings(client)
    check_responses(client)
    check_compaction(client)
    check_errors(client)
    check_models(client)
    if "batches" in sys.argv[3:]:
        check_batches(client)
        check_stored_responses(client)
        check_background(client)
        check_conversations(client)
    asyncio.run(check_async())
    end()


main()
