#!/usr/bin/env python3
"""openai: the model calls a function, and answers with what it returned."""
import json
import sys

import openai

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
client = openai.OpenAI(base_url=url + "/v1", api_key="none")
model = client.models.list().data[0].id
tools = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["Bern", "Oslo"]}},
                "required": ["city"],
            },
        },
    }
]
messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
first = client.chat.completions.create(
    model=model, messages=messages, tools=tools, tool_choice="required", max_tokens=100
)
call = first.choices[0].message.tool_calls[0]
city = json.loads(call.function.arguments)["city"]
print(f"{call.function.name}({city})")
messages += [
    first.choices[0].message.model_dump(exclude_none=True),
    {"role": "tool", "tool_call_id": call.id, "content": f"It rains in {city}."},
]
print(client.chat.completions.create(model=model, messages=messages, max_tokens=60).choices[0].message.content)
