# SPDX-License-Identifier: Apache-2.0
"""litellm, unchanged: chats, streams, embeddings and its errors."""
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it asks the network for prices otherwise

import litellm
from tap import MODEL, URL, end, ok, raises, same

TO = {"model": "openai/" + MODEL, "api_base": URL, "api_key": "none", "num_retries": 0, "max_retries": 0}
HELLO = [{"role": "user", "content": "Once upon a time"}]

made = litellm.completion(messages=HELLO, stop=["time"], max_tokens=60, **TO)
same(made.choices[0].finish_reason, "stop", "a chat")
ok(made.choices[0].message.content.endswith("upon a "), "  with its text")
same(made.usage.total_tokens, made.usage.prompt_tokens + made.usage.completion_tokens, "  and usage")
chunks = list(litellm.completion(messages=HELLO, stop=["time"], max_tokens=60, stream=True, **TO))
same("".join(c.choices[0].delta.content or "" for c in chunks), made.choices[0].message.content, "a stream has the same")
same(chunks[-1].choices[0].finish_reason, "stop", "  and its end")
made = litellm.embedding(input=["Once", "Once upon"], encoding_format="float", **TO)
same(len(made.data), 2, "embeddings")
ok(abs(sum(x * x for x in made.data[1]["embedding"]) - 1) < 1e-5, "  of length 1")
made = litellm.responses(input="Once upon a time", max_output_tokens=20, **TO)  # 16 is its least
same(made.usage.output_tokens, 20, "a response")
raises(litellm.BadRequestError, lambda: litellm.completion(messages=HELLO, temperature=-1, **TO), "a bad request")
raises(litellm.ContextWindowExceededError,
       lambda: litellm.completion(messages=[{"role": "user", "content": "long " * 600}], **TO), "a long prompt is one")
raises(litellm.NotFoundError, lambda: litellm.completion(messages=HELLO, **{**TO, "model": "openai/gpt-4"}), "another model")
end()
