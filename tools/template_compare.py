#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our chat templates beside Jinja: the same text of the same conversations?

    pip install jinja2
    tools/template_compare.py [--random N] BUILD/bench/template FILE.jinja|FOLDER...

Each file is rendered for a plain conversation, one with a system message, and one with a
system message, tools, calls of them and their results, each with and without
add_generation_prompt; with --random also for N random
conversations: of any length, roles in turn and out of it, contents with white space,
markup and Unicode. Jinja is set up as Transformers does (template_vectors.py). Where it
raises an error we must reject too, with two exceptions, for which it is asked again without
them: its sandbox refuses list.append() and the like, and it has no filter from_json.
The status is 1 if anything differs.
"""
import argparse
import datetime
import json
import pathlib
import random
import subprocess
import sys

from jinja2.sandbox import SandboxedEnvironment

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import template_vectors as vectors

TIME = 1700000000
CONTENTS = ["Hello", "  spaces around \n", "", "Wie geht's? \u00e4\u00f6\u00fc \u6771\u4eac \U0001f600", "a\n\nb\n", "{{ 1 }} {% x %}",
            "<|im_start|>user\n<s>[INST] </s>", "\"quoted\" \\ 'text' <b>&amp;</b>", "<think>hm</think>\n\nyes", "\t tab\r\n"]

USER = {"role": "user", "content": "What is the weather in Z\u00fcrich & Basel?"}
SYSTEM = {"role": "system", "content": "You are a 'helpful' assistant."}
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a place <now>",
        "parameters": {"type": "object", "properties": {
            "place": {"type": "string", "description": "a city's name"},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": "array", "items": {"type": "integer"}, "nullable": True}},
            "required": ["place"]}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}, "required": []}}},
]
CALLS = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call00001", "type": "function", "function": {
        "name": "get_weather", "arguments": {"place": "Z\u00fcrich", "unit": "C", "days": [1, 2], "exact": True, "limit": 0.5}}}]}
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"degrees\": 21.5}"}
ANSWER = {"role": "assistant", "content": "It is 21.5 degrees."}
FIXED = [
    ("plain", [USER, ANSWER, USER], {}),
    ("system", [SYSTEM, USER, ANSWER, USER], {}),
    ("tools", [SYSTEM, USER, CALLS, RESULT, ANSWER, USER], {"tools": TOOLS}),
]


def conversations(count, seed=20261121):
    draw = random.Random(seed)
    made = []
    while len(made) < count:
        messages = [{"role": "system", "content": draw.choice(CONTENTS)}] if draw.random() < .5 else []
        for i in range(draw.randint(0 if messages else 1, 7)):
            role = ("user", "assistant")[i % 2]
            if draw.random() < .03:
                role = draw.choice(["user", "assistant", "system", "tool", "function"])
            messages.append({"role": role, "content": draw.choice(CONTENTS)})
        made.append((messages, draw.random() < .7))
    return made


def environments():
    strict, lenient = vectors.environment(), vectors.environment(SandboxedEnvironment)
    lenient.filters["from_json"] = json.loads
    for env in (strict, lenient):
        env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(TIME).strftime(form)
    return strict, lenient


def case(envs, source, messages, prompt, variables):
    made = vectors.case(envs[0], source, messages, prompt, variables)
    if made.get("why", "").startswith("SecurityError") or "from_json" in made.get("why", ""):
        made = vectors.case(envs[1], source, messages, prompt, variables)
        made["asked_again"] = True
    return made


def compare(ours, path, count):
    """How many differ, whether it loads, whether the fixed conversations are the same."""
    source, envs = path.read_text(), environments()
    cases = [case(envs, source, messages, prompt, variables) for _, messages, variables in FIXED for prompt in (True, False)]
    cases += [case(envs, source, messages, prompt, {}) for messages, prompt in conversations(count)]
    lines = [json.dumps(dict(c, bos=vectors.BOS, eos=vectors.EOS, time=TIME)) for c in cases]
    said = subprocess.run([ours, "--text"], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    got = [json.loads(line) for line in said.split("\n") if line]
    assert len(got) == len(cases)
    if not got[0].get("compiled", True):
        print(f"{path.name}: refused: {got[0]['error']}")
        return len(cases), False, False
    wrong = [i for i, (c, g) in enumerate(zip(cases, got)) if c.get("text") != g.get("text")]
    rejected = sum("rejected" in c for c in cases)
    again = " (Jinja asked again without its sandbox)" if any("asked_again" in c for c in cases) else ""
    print(f"{path.name}: {len(cases)} conversations, {rejected} rejected by Jinja, {len(wrong)} differ{again}")
    for i in wrong[:2]:
        print("   ", FIXED[i // 2][0] if i < 2 * len(FIXED) else json.dumps(cases[i]["messages"], ensure_ascii=False))
        print("    got ", repr(got[i].get("text", got[i].get("error"))))
        print("    want", repr(cases[i].get("text", cases[i].get("why"))))
    return len(wrong), True, all(i >= 2 * len(FIXED) for i in wrong)


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--random", type=int, default=0)
    options.add_argument("ours")
    options.add_argument("paths", nargs="+", type=pathlib.Path)
    given = options.parse_args()
    files = [file for path in given.paths for file in (sorted(path.glob("*.jinja")) if path.is_dir() else [path])]
    results = [compare(given.ours, file, given.random) for file in files]
    print(f"{len(files)} templates: {sum(r[1] for r in results)} load, {sum(r[2] for r in results)} the same in "
          f"{', '.join(f[0] for f in FIXED)}; {sum(r[0] == 0 for r in results)} the same in all")
    sys.exit(any(r[0] for r in results))


main()
