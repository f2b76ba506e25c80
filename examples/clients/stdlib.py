#!/usr/bin/env python3
"""Python without packages: an answer as it is written."""
import json
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
body = {"messages": [{"role": "user", "content": "List five animals."}], "max_tokens": 60, "stream": True}
request = urllib.request.Request(
    url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
)
with urllib.request.urlopen(request) as answer:
    for line in answer:
        data = line.decode().removeprefix("data: ").strip()
        if data and data != "[DONE]":
            delta = json.loads(data)["choices"][0]["delta"]
            print(delta.get("content") or "", end="", flush=True)
print()
