# SPDX-License-Identifier: Apache-2.0
"""huggingface_hub's text_generation, and AzureOpenAI, both unchanged."""
import sys

from huggingface_hub import InferenceClient
from huggingface_hub.errors import ValidationError
from openai import AzureOpenAI
from tap import MODEL, end, ok, raises, same

client = InferenceClient(model=sys.argv[1])
PROMPT = "Once upon a time"
said = client.text_generation(PROMPT, max_new_tokens=8)
ok("upon" in said, "a text")
same("".join(client.text_generation(PROMPT, max_new_tokens=8, stream=True)), said, "a stream has the same")
whole = client.text_generation(PROMPT, max_new_tokens=8, details=True)
same((whole.generated_text, whole.details.finish_reason.lower(), whole.details.generated_tokens), (said, "length", 8), "details")
same(len(whole.details.tokens), 8, "  with each token")
parts = list(client.text_generation(PROMPT, max_new_tokens=8, details=True, stream=True))
same((parts[-1].generated_text, parts[-1].details.generated_tokens), (said, 8), "  of a stream")
ok(client.text_generation(PROMPT, max_new_tokens=8, return_full_text=True).startswith(PROMPT), "return_full_text")
raises(ValidationError, lambda: client.text_generation(PROMPT, watermark=True), "an error")

azure = AzureOpenAI(azure_endpoint=sys.argv[1], api_key="none", api_version="2024-06-01", max_retries=0)
ASK = {"model": MODEL, "max_tokens": 4}
ok(azure.chat.completions.create(messages=[{"role": "user", "content": PROMPT}], **ASK).choices[0].message.content, "Azure: a chat")
ok(azure.completions.create(prompt=PROMPT, **ASK).choices[0].text, "Azure: a completion")
same(len(azure.embeddings.create(model=ASK["model"], input=["a", "b"]).data), 2, "Azure: vectors")
end()
