#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official openai client's parse helpers against a model: TAP on stdout.

    parse_client.py http://127.0.0.1:PORT

Run by clients.t, with the demo model: what its answers say is nonsense, but they keep to the schemas
that the client makes of classes.
"""
import os
import sys
from typing import Literal, Optional

import openai
import pydantic

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
from tap import URL, end, ok, same


class Leg(pydantic.BaseModel):
    side: Literal["left", "right"]
    broken: bool


class Animal(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    age: int = pydantic.Field(ge=0, le=30)
    legs: list[Leg] = pydantic.Field(min_length=1, max_length=2)
    parent: Optional["Animal"]


class Look(pydantic.BaseModel):
    """Looks at an animal."""
    animal: Literal["cat", "dog"]


client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0)
model = client.models.list().data[0].id
ASK = "Once upon a time"

for seed in range(5):
    try:
        made = client.responses.parse(model=model, input=ASK, text_format=Animal, max_output_tokens=400, extra_body={"seed": seed})
        break
    except pydantic.ValidationError as error:  # an answer that was cut short
        print(f"# seed {seed}: {error}".replace("\n", " "))
same(made.status, "completed", "responses.parse")
ok(isinstance(made.output_parsed, Animal), "  makes an object of the answer")
same(made.text.format.type, "json_schema", "  and is told the format")
with client.responses.stream(model=model, input=ASK, text_format=Animal, max_output_tokens=400,
                             extra_body={"seed": seed}) as events:
    kinds = {event.type for event in events}
    streamed = events.get_final_response()
same(streamed.output_parsed, made.output_parsed, "  streamed, the same")
ok("response.output_text.delta" in kinds, "  in pieces")
made = client.chat.completions.parse(model=model, messages=[{"role": "user", "content": ASK}], response_format=Animal,
                                     max_tokens=400, seed=seed)
ok(isinstance(made.choices[0].message.parsed, Animal), "chat.completions.parse")
made = client.responses.parse(model=model, input=ASK, tools=[openai.pydantic_function_tool(Look)["function"] | {"type": "function"}],
                              tool_choice="required", parallel_tool_calls=False, max_output_tokens=400)
ok(made.output[-1].type == "function_call" and isinstance(made.output[-1].parsed_arguments, (Look, dict)),
   "the arguments of a call that is required")
end()
