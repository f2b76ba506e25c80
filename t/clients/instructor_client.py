# SPDX-License-Identifier: Apache-2.0
"""instructor, unchanged: objects out of answers, by tools, JSON and schemas."""
from typing import Literal

import instructor
import openai
import pydantic
from tap import MODEL, URL, end, ok, same


class Animal(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    age: int = pydantic.Field(ge=0, le=30)


HELLO = [{"role": "user", "content": "Once upon a time"}]
ASK = {"model": MODEL, "messages": HELLO, "response_model": Animal, "max_tokens": 200, "max_retries": 0}
plain = openai.OpenAI(base_url=URL, api_key="none", max_retries=0)

for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(plain, mode=mode)
    made, whole = client.chat.completions.create_with_completion(**ASK)
    ok(isinstance(made, Animal) and made.kind in ("cat", "dog"), f"{mode.name}: an object")
    ok(whole.usage.completion_tokens > 0, "  and the answer that it is of")
    parts = list(client.chat.completions.create_partial(**ASK))
    ok(len(parts) > 1 and parts[-1].kind in ("cat", "dog"), "  and in pieces")
client = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
same([client.chat.completions.create(**{**ASK, "response_model": kind}) in choices
      for kind, choices in ((Literal["left", "right"], ("left", "right")), (bool, (True, False)))], [True, True], "words and truths")
end()
