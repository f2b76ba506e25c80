#!/bin/sh
# An answer as it is written: server-sent events, a piece of text in each.
url=${1:-http://127.0.0.1:8080}
curl -sSN "$url/v1/chat/completions" -H 'content-type: application/json' \
  -d '{"messages": [{"role": "user", "content": "List five animals."}], "max_tokens": 60, "stream": true}'
