# SPDX-License-Identifier: Apache-2.0
"""Every parameter of the types that the openai and anthropic packages publish, and its members three levels deep,
each with a valid value: it has its effect (the lists below, whose effects t/api tests), is a 400 that names it, or is
listed in x-llmserve-ignored. A parameter that a newer package adds, and that is dropped in silence, fails by name.
"""
import json
import types
import typing
import urllib.error
import urllib.request

import typing_extensions
from anthropic.types import message_count_tokens_params, message_create_params
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params
from tap import URL, end, ok
from typing import Annotated, Literal, NotRequired, Required, get_args, get_origin

NOTHING = object()
DEPTH = 3
FUNCTION = {"name": "find", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                                           "additionalProperties": False}}
BY_NAME = {"name": "find", "role": "user", "url": "http://a.b/c", "pattern": "a", "data": "AAAA"}
SCHEMAS = ("schema", "parameters", "input_schema")
SAMPLING = """model user stream temperature top_p n stop seed max_tokens logprobs presence_penalty frequency_penalty
stream_options.include_usage"""
CACHED = "prompt_cache_key prompt_cache_retention service_tier parallel_tool_calls tool_choice"
BLOCKS = """messages messages.content messages.content.cache_control messages.content.cache_control.ttl
messages.content.content messages.content.content.cache_control messages.content.is_error cache_control
cache_control.ttl model system system.cache_control system.cache_control.ttl thinking thinking.display tool_choice
tool_choice.disable_parallel_tool_use tools tools.cache_control tools.cache_control.ttl tools.description
tools.input_schema tools.input_schema.properties tools.input_schema.required tools.strict output_config.format
output_config.format.schema"""
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
ENDPOINTS = (
    ("/completions", completion_create_params.CompletionCreateParamsNonStreaming, {"prompt": "Hi", "max_tokens": 2},
     SAMPLING + " prompt echo"),
    ("/chat/completions", chat_params.CompletionCreateParamsNonStreaming, CHAT,
     f"""{SAMPLING} {CACHED} messages messages.content messages.name messages.tool_calls messages.tool_calls.function
     max_completion_tokens top_logprobs modalities response_format response_format.json_schema.schema
     tool_choice.function tools tools.function tools.function.description tools.function.parameters
     tools.function.strict"""),
    ("/responses", response_create_params.ResponseCreateParamsNonStreaming, {"input": "Hi", "max_output_tokens": 16},
     f"""{SAMPLING} {CACHED} input input.call_id input.content input.id input.output input.status instructions
     input.content.annotations input.content.logprobs input.content.logprobs.bytes
     input.content.logprobs.top_logprobs max_output_tokens metadata include store truncation text.format
     text.format.schema text.format.strict tool_choice.tools tools tools.description tools.format tools.parameters"""),
    ("/embeddings", embedding_create_params.EmbeddingCreateParams, {"input": "Hi"}, "input model encoding_format user dimensions"),
    ("/messages", message_create_params.MessageCreateParamsNonStreaming, CHAT,
     BLOCKS + " max_tokens metadata.user_id service_tier stop_sequences stream temperature top_p top_k"),
    ("/messages/count_tokens", message_count_tokens_params.MessageCountTokensParams, {"messages": CHAT["messages"]}, BLOCKS),
)


def strip(kind):
    while True:
        if get_origin(kind) in (Required, NotRequired, typing_extensions.Required, typing_extensions.NotRequired, Annotated):
            kind = get_args(kind)[0]
        elif isinstance(kind, typing_extensions.TypeAliasType):
            kind = kind.__value__
        else:
            return kind


def choices(kind):
    kind = strip(kind)
    if get_origin(kind) in (typing.Union, types.UnionType):
        return [choice for inner in get_args(kind) for choice in choices(inner)]
    return [kind]


def members(kind):
    return typing_extensions.get_type_hints(kind, include_extras=True).items()


def is_required(kind, hint):
    origin = get_origin(hint)
    if origin in (NotRequired, typing_extensions.NotRequired):
        return False
    return origin in (Required, typing_extensions.Required) or kind.__total__


def element(kind):
    """The type of an array's elements, or None."""
    named = str(get_origin(kind))
    return get_args(kind)[0] if get_origin(kind) is list or "Iterable" in named or "Sequence" in named else None


def least(kind, name="", depth=0):
    """The value with the fewest members, or NOTHING."""
    for choice in choices(kind):
        value = least_of(choice, name, depth)
        if value is not NOTHING:
            return value
    return NOTHING


def least_of(kind, name, depth):
    plain = {str: BY_NAME.get(name, "x"), bool: True, int: 2, float: 0.5, object: {"a": "b"}, typing.Any: {"a": "b"}}
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if name in SCHEMAS and not typing_extensions.is_typeddict(kind):
        return FUNCTION["parameters"]
    if kind in plain:
        return plain[kind]
    if typing_extensions.is_typeddict(kind):
        made = {key: least(hint, key, depth + 1) for key, hint in members(kind) if is_required(kind, hint)}
        return NOTHING if depth > 6 or NOTHING in made.values() else made
    inner = element(kind)
    if inner is not None or get_origin(kind) is dict:
        value = least(inner if inner is not None else get_args(kind)[1], name, depth + 1)
        return NOTHING if value is NOTHING else [value] if inner is not None else {"k": value}
    return NOTHING


def is_plain(hint):
    return all(element(kind) is None and not typing_extensions.is_typeddict(kind) for kind in choices(hint))


def values(kind, name, path, depth=0):
    """A path and a value for each member that the type has."""
    for choice in choices(kind):
        if get_origin(choice) is Literal:
            yield from ((path, word) for word in get_args(choice))
        elif element(choice) is not None:
            yield from ((inner, [value]) for inner, value in values(element(choice), name, path, depth))
        else:
            base = least_of(choice, name, depth)
            if base is NOTHING:
                continue
            yield path, base
            for key, hint in members(choice) if typing_extensions.is_typeddict(choice) and depth < DEPTH else ():
                if key != "type" and not (is_required(choice, hint) and is_plain(hint)):
                    yield from ((inner, {**base, key: value}) for inner, value in values(hint, key, f"{path}.{key}", depth + 1))


def post(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers.get("x-llmserve-ignored", ""), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, "", error.read().decode()


def body_with(path, sound, name, value):
    tool = {"/chat/completions": {"type": "function", "function": FUNCTION}, "/responses": {"type": "function", **FUNCTION}}
    body = {**sound, name: value}
    if name in ("tool_choice", "parallel_tool_calls"):
        body["tools"] = [tool.get(path, {"name": "find", "input_schema": FUNCTION["parameters"]})]
    if name == "top_logprobs" and path == "/chat/completions":
        body["logprobs"] = True
    return {**body, "stream": True} if name == "stream_options" else body


for path, kind, sound, effective in ENDPOINTS:
    sent, wrong = 0, []
    for name, hint in members(kind):
        for place, value in values(hint, name, name):
            if value in ({}, [], [{}], False):  # asks for nothing
                continue
            status, ignored, text = post(path, body_with(path, sound, name, value))
            named = status == 400 and any(part in text for part in place.split("."))
            sent += 1
            if not named and (status != 200 or not ignored and place not in effective.split()):
                wrong.append(f"{place} {json.dumps(value)}: {status} {text[:200] if status != 200 else 'in silence'}")
    ok(sent >= len(list(members(kind))) // 2, f"{path}: {sent} values")
    ok(not wrong, "  each has its effect, is refused by name, or is listed")
    for line in sorted(set(wrong)):
        print("# " + line)
end()
