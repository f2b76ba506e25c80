#!/usr/bin/env python3
"""anthropic: /v1/messages, an answer as it is written."""
import sys

import anthropic

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
client = anthropic.Anthropic(base_url=url, api_key="none")
with client.messages.stream(
    model="default", max_tokens=60, messages=[{"role": "user", "content": "List five animals."}]
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
print()
