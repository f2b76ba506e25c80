#!/bin/sh
# Two turns of one conversation. prompt_cache_key names the session: schedulers and cache managers know that it may
# come back, and "cached_tokens" of the second answer says how much of the prompt was still there.
url=${1:-http://127.0.0.1:8080}
first='{"role": "user", "content": "Tell me of a small dog, a big house, a garden with a tree, and of a red ball."}'
body() { echo "{\"prompt_cache_key\": \"talk-1\", \"max_tokens\": 20, \"messages\": [$1]}"; }
curl -sS "$url/v1/chat/completions" -H 'content-type: application/json' -d "$(body "$first")"
echo
curl -sS "$url/v1/chat/completions" -H 'content-type: application/json' -d "$(body "$first,
  {\"role\": \"assistant\", \"content\": \"There was a dog.\"}, {\"role\": \"user\", \"content\": \"And then?\"}")"
