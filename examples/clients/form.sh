#!/bin/sh
# An answer in the form of a JSON schema: whatever the model is, the text is valid.
url=${1:-http://127.0.0.1:8080}
curl -sS "$url/v1/chat/completions" -H 'content-type: application/json' -d '{
  "messages": [{"role": "user", "content": "A book, please."}],
  "max_tokens": 200,
  "response_format": {"type": "json_schema", "json_schema": {"name": "book", "schema": {
    "type": "object",
    "properties": {"title": {"type": "string", "maxLength": 30}, "pages": {"type": "integer", "minimum": 1, "maximum": 999}},
    "required": ["title", "pages"], "additionalProperties": false}}}}'
