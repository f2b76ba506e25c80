# SPDX-License-Identifier: Apache-2.0
"""pydantic-ai, unchanged: agents over /v1/chat/completions and /v1/responses."""
import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from tap import MODEL, URL, end, ok, same

PROVIDER = OpenAIProvider(base_url=URL, api_key="none")


async def run(model, name):
    agent = Agent(model, instructions="Be brief.", model_settings={"max_tokens": 40})
    made = await agent.run("Once upon a time")
    ok("Once upon a time" in made.output, f"{name}: an answer")
    ok("Be brief." in made.output, "  to a prompt with instructions")
    usage = made.usage() if callable(made.usage) else made.usage  # by version
    same(usage.output_tokens, 40, "  with usage")
    async with agent.run_stream("Once upon a time") as stream:
        parts = [part async for part in stream.stream_text(delta=True, debounce_by=None)]
    ok(len(parts) > 1, "  and in pieces")
    same("".join(parts), made.output, "  the same")
    again = await agent.run("And then?", message_history=made.new_messages())
    ok("Once upon a time" in again.output, "  and what was said before is sent again")


asyncio.run(run(OpenAIChatModel(MODEL, provider=PROVIDER), "chat"))
asyncio.run(run(OpenAIResponsesModel(MODEL, provider=PROVIDER), "responses"))
end()
