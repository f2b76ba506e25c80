# SPDX-License-Identifier: Apache-2.0
"""openai-agents, unchanged: an agent with tools and a form for its answer, over both APIs."""
import asyncio
from typing import Literal

import openai
import pydantic
from agents import (Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, WebSearchTool,
                    function_tool, set_tracing_disabled)
from tap import MODEL, URL, end, ok, same

set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=URL, api_key="none", max_retries=0)
called = []


class Animal(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    age: Literal[1, 2, 3]


@function_tool
def count(kind: Literal["cat", "dog"]) -> str:
    """Counts animals."""
    called.append(kind)
    return "3"


async def run(model, name, *more):
    def agent(**settings):
        return Agent(name="A", instructions="Be brief.", model=model, tools=[count, *more], output_type=Animal,
                     model_settings=ModelSettings(max_tokens=150, temperature=1, parallel_tool_calls=False, **settings))

    made = await Runner.run(agent(tool_choice="required"), "Once upon a time", max_turns=20)
    ok(isinstance(made.final_output, Animal), f"{name}: an object, after calls of tools")
    ok(called and set(called) <= {"cat", "dog"}, "  with valid arguments")
    stream = Runner.run_streamed(agent(), "Once upon a time", max_turns=20)
    kinds = {event.type async for event in stream.stream_events()}
    ok(isinstance(stream.final_output, Animal), "  streamed, too, where a call is its choice")
    same(kinds >= {"raw_response_event", "run_item_stream_event"}, True, "  with events")


async def both():
    await run(OpenAIChatCompletionsModel(MODEL, client), "chat")
    called.clear()
    await run(OpenAIResponsesModel(MODEL, client), "responses", WebSearchTool())


asyncio.run(both())  # one loop: the client keeps its connections
end()
