#!/usr/bin/env python3
"""ollama: /api/chat, an answer as it is written."""
import sys

import ollama

client = ollama.Client(host=sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
model = client.list().models[0].model
messages = [{"role": "user", "content": "List five animals."}]
for part in client.chat(model=model, messages=messages, options={"num_predict": 60}, stream=True):
    print(part.message.content, end="", flush=True)
print()
