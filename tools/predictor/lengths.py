# SPDX-License-Identifier: Apache-2.0
"""Asks a running server for the length of its answers: a corpus that encoders and length models are trained on.

    cd tools/demo-model && python3 make_text.py --seed 7 --count 9000 > /tmp/text.jsonl
    llmserve -c etc/fcfs.ini &
    python3 tools/predictor/lengths.py --text /tmp/text.jsonl --url http://127.0.0.1:8080 > lengths.jsonl

Reads JSON lines of {"messages": [...]} (the first user message is asked, with the system message before it if there is
one) or {"prompt": text}; writes {"text", "length"}, a prompt once: text is the prompt as the server's template renders
it, length the answer's tokens at temperature 0. Only Python's own library is used.
"""
import argparse
import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

RENDERED = "<|im_start|>{role}\n{content}<|im_end|>\n"


def render(messages):
    return "".join(RENDERED.format(**m) for m in messages) + "<|im_start|>assistant\n"


def ask(url, text, limit):
    body = {"prompt": text, "max_tokens": limit, "temperature": 0}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def prompts(lines, without=()):
    seen = set(without)
    for line in lines:
        row = json.loads(line)
        text = row.get("prompt")
        users = [i for i, m in enumerate(row.get("messages", [])) if m["role"] == "user"]
        if text is None and not users:
            continue
        if text is None:
            text = render(row["messages"][:users[0] + 1])
        if text not in seen:
            seen.add(text)
            yield text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--text", required=True)
    parser.add_argument("--without", help="leaves out what is asked in that file: prompts that were trained on")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--limit", type=int, default=512)
    parser.add_argument("--parallel", type=int, default=16)
    a = parser.parse_args()
    with open(a.text) as lines, ThreadPoolExecutor(a.parallel) as pool:
        texts = list(prompts(lines, prompts(open(a.without)) if a.without else ()))
        for text, length in zip(texts, pool.map(lambda t: ask(a.url, t, a.limit), texts)):
            print(json.dumps({"text": text, "length": length}))
            sys.stdout.flush()
