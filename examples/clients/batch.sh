#!/bin/sh
# A file of requests, answered in the background. The server needs [server] state.
set -e
url=${1:-http://127.0.0.1:8080}
value() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" | head -n 1; }
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for subject in dog cat bird; do
  echo "{\"custom_id\": \"$subject\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": \"The $subject\", \"max_tokens\": 9}}"
done >"$lines"
file=$(curl -sSf "$url/v1/files" -F purpose=batch -F "file=@$lines;filename=lines.jsonl" | value id)
batch=$(curl -sSf "$url/v1/batches" -H 'content-type: application/json' \
  -d "{\"input_file_id\": \"$file\", \"endpoint\": \"/v1/completions\", \"completion_window\": \"24h\"}" | value id)
while :; do
  answer=$(curl -sSf "$url/v1/batches/$batch")
  case $(echo "$answer" | value status) in
    completed) break ;;
    failed | expired | cancelled) echo "$answer" >&2; exit 1 ;;
  esac
  sleep 0.2
done
curl -sSf "$url/v1/files/$(echo "$answer" | value output_file_id)/content"
