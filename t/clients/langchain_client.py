# SPDX-License-Identifier: Apache-2.0
"""langchain-openai, unchanged: chats, streams, calls of tools, embeddings."""
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from tap import MODEL, URL, end, ok, same

TO = {"model": MODEL, "base_url": URL, "api_key": "none", "max_retries": 0}


def weather(place: str) -> str:
    """The weather of a place."""
    return "rain in " + place


chat = ChatOpenAI(stop=["time"], max_tokens=60, **TO)
said = chat.invoke("Once upon a time")
ok(said.content.endswith("upon a "), "a chat")
same(said.response_metadata["finish_reason"], "stop", "  with its end")
ok(said.usage_metadata["total_tokens"] > 0, "  and usage")
same("".join(part.content for part in chat.stream("Once upon a time")), said.content, "a stream has the same")
same(len(chat.batch(["Once upon a time"] * 5)), 5, "several at once")
call = '<tool_call>{"name": "weather", "arguments": {"place": "Bern"}}</tool_call><stop>'
caller = ChatOpenAI(stop=["<stop>"], max_tokens=200, extra_body={"chat_template_kwargs": {"only": True}}, **TO)
made = caller.bind_tools([weather]).invoke(call)
same([(c["name"], c["args"]) for c in made.tool_calls], [("weather", {"place": "Bern"})], "a call of a tool")
responses = ChatOpenAI(use_responses_api=True, max_tokens=5, **TO).invoke("Once upon a time")
ok(responses.text, "by /v1/responses")
ok(OpenAI(max_tokens=4, **TO).invoke("Once upon a time").endswith("upon a time"), "a completion")
vectors = OpenAIEmbeddings(check_embedding_ctx_length=False, **TO).embed_documents(["Once", "Once upon"])
same(len(vectors), 2, "embeddings")
ok(abs(sum(x * x for x in vectors[1]) - 1) < 1e-5, "  of length 1")
end()
