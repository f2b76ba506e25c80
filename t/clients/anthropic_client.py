# SPDX-License-Identifier: Apache-2.0
"""The anthropic client and langchain-anthropic, unchanged, over /v1/messages of the fake server, whose answers
repeat the prompt. Two more servers, the second and the third word: one with the key "one" and two requests a
minute, and one with a single place."""
import sys

import anthropic
from langchain_anthropic import ChatAnthropic
from tap import MODEL, URL, end, ok, raises, same

BASE = URL.removesuffix("/v1")
client = anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0)
ASK = {"model": MODEL, "max_tokens": 12, "messages": [{"role": "user", "content": "Once upon a time"}]}
TOOL = {"name": "weather", "description": "tells it",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
CALL = 'Look. <tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call><stop>'
ONLY = {"chat_template_kwargs": {"only": True}}  # the fake's template prints the message alone


def told(message):
    """What it says, without what differs between two requests."""
    blocks = [block.model_dump(exclude={"id"}, exclude_none=True) for block in message.content]
    return blocks, message.stop_reason, message.stop_sequence, message.usage.output_tokens


def messages():
    message = client.messages.create(system="Be brief.", **ASK)
    same((message.type, message.role, message.stop_reason), ("message", "assistant", "max_tokens"), "a message")
    same(message.usage.output_tokens, 12, "  with usage")
    ok(bool(message._request_id), "  and the request id")
    with client.messages.stream(system="Be brief.", **ASK) as stream:
        parts = list(stream.text_stream)
        streamed = stream.get_final_message()
    ok(len(parts) > 1, "a stream in pieces")
    same(told(streamed), told(message), "  is the whole")
    same("".join(parts), message.content[0].text, "  and so is its text")
    kinds = [event.type for event in client.messages.create(stream=True, **ASK)]
    same((kinds[0], kinds[1], kinds[-1]), ("message_start", "content_block_start", "message_stop"), "bare events")
    stopped = client.messages.create(**{**ASK, "max_tokens": 60}, stop_sequences=["time"])
    same((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", "time"), "a stop sequence")
    counted = client.messages.count_tokens(model=MODEL, system="Be brief.", messages=ASK["messages"])
    same(counted.input_tokens, message.usage.input_tokens + message.usage.cache_creation_input_tokens + message.usage.cache_read_input_tokens, "count_tokens")


def tools():
    ask = {**ASK, "max_tokens": 200, "tools": [TOOL], "stop_sequences": ["<stop>"],
           "messages": [{"role": "user", "content": CALL}], "extra_body": ONLY}
    message = client.messages.create(**ask)
    same([block.type for block in message.content], ["text", "tool_use"], "a text and a call")
    use = message.content[1]
    same((use.name, use.input, message.stop_reason), ("weather", {"city": "Bern"}, "tool_use"), "  of the tool")
    with client.messages.stream(**ask) as stream:
        same(told(stream.get_final_message()), told(message), "  streamed as whole")
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "sun"}]}
    turns = [*ask["messages"], {"role": "assistant", "content": message.content},
             {"role": "user", "content": [result]}]
    after = client.messages.create(model=MODEL, max_tokens=160, tools=[TOOL], messages=turns,
                                   tool_choice={"type": "none"})
    ok(f"Look.Bern\ntool: sun{use.id}" in after.content[0].text, "  and its result goes back")

    @anthropic.beta_tool
    def weather(city: str) -> str:
        """Tells it.

        Args:
            city: where
        """
        return f"sun in {city}"

    runner = client.beta.messages.tool_runner(**{**ask, "tools": [weather], "max_iterations": 2})
    turns = list(runner)
    same([turn.stop_reason for turn in turns][0], "tool_use", "the tool runner calls")
    ok("sun in Bern" in turns[1].content[0].text, "  and goes on with the result")


def errors():
    bad = {**ASK, "max_tokens": 0}
    error = raises(anthropic.BadRequestError, lambda: client.messages.create(**bad), "a bad request")
    same(error.body["error"]["type"], "invalid_request_error", "  by its type")
    raises(anthropic.BadRequestError, lambda: client.messages.count_tokens(model=MODEL, messages=[]), "a bad count")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    error = raises(anthropic.BadRequestError, lambda: client.messages.create(
        **{**ASK, "messages": [{"role": "user", "content": [image]}]}), "an image")
    ok("image" in error.message, "  by its name")
    failing = client.with_options(default_headers={"x-request-id": "failnow-1"})
    raises(anthropic.InternalServerError, lambda: failing.messages.create(**ASK), "an engine that fails")
    failing = client.with_options(default_headers={"x-request-id": "fail-2"})

    def middle():
        with failing.messages.stream(**{**ASK, "max_tokens": 60}) as stream:
            stream.get_final_message()
    raises(anthropic.APIStatusError, middle, "one that fails in the middle of a stream")


def refusals():
    keyed = anthropic.Anthropic(base_url=sys.argv[2], api_key="none", max_retries=0)
    raises(anthropic.AuthenticationError, lambda: keyed.messages.create(**ASK), "a wrong key")
    keyed = anthropic.Anthropic(base_url=sys.argv[2], api_key="one", max_retries=0)
    raises(anthropic.NotFoundError, lambda: keyed.messages.create(**{**ASK, "model": "none"}), "another model")
    name = keyed.models.list().data[0].id
    raises(anthropic.RateLimitError,
           lambda: [keyed.messages.create(**{**ASK, "model": name}) for _ in range(3)], "too many requests")
    full = anthropic.Anthropic(base_url=sys.argv[3], api_key="none", max_retries=0)
    with full.messages.create(stream=True, **{**ASK, "max_tokens": 400}) as stream:
        next(iter(stream))
        error = raises(anthropic.OverloadedError, lambda: full.messages.create(**ASK), "a full queue")
    ok(float(error.response.headers["retry-after"]) > 0, "  with the time to wait")


def langchain():
    chat = ChatAnthropic(model=MODEL, base_url=BASE, api_key="none", max_tokens=12)
    made = chat.invoke("Once upon a time")
    ok("Once upon a" in made.content, "langchain: an answer")
    same(made.usage_metadata["output_tokens"], 12, "  with usage")
    parts = list(chat.stream("Once upon a time"))
    ok(len(parts) > 2, "  in pieces")
    same("".join(part.text if isinstance(part.text, str) else part.text() for part in parts), made.content, "  the same")
    calling = ChatAnthropic(model=MODEL, base_url=BASE, api_key="none", max_tokens=200, stop=["<stop>"],
                            model_kwargs={"extra_body": ONLY}).bind_tools([TOOL])
    called = calling.invoke(CALL)
    same([(call["name"], call["args"]) for call in called.tool_calls], [("weather", {"city": "Bern"})], "  and a call")


messages()
tools()
errors()
refusals()
langchain()
end()
