#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our chat templates beside Jinja: the same text of the same conversations?

    pip install jinja2
    tools/template_compare.py BUILD/bench/template FILE.jinja...

Each file is rendered for 200 random conversations: with and without a system message, of
any length, roles in turn and out of it, contents with white space, markup and Unicode.
Where Jinja raises an error we must reject too.
"""
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import template_vectors as vectors

TIME = 1700000000
CONTENTS = ["Hello", "  spaces around \n", "", "Wie geht's? \u00e4\u00f6\u00fc \u6771\u4eac \U0001f600", "a\n\nb\n", "{{ 1 }} {% x %}",
            "<|im_start|>user\n<s>[INST] </s>", "\"quoted\" \\ 'text' <b>&amp;</b>", "<think>hm</think>\n\nyes", "\t tab\r\n"]


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


def compare(ours, path):
    env = vectors.environment()
    env.globals["strftime_now"] = lambda form: __import__("time").strftime(form, __import__("time").localtime(TIME))
    source = path.read_text()
    cases = [vectors.case(env, source, messages, prompt) for messages, prompt in conversations(200)]
    lines = [json.dumps(dict(c, bos=vectors.BOS, eos=vectors.EOS, time=TIME)) for c in cases]
    said = subprocess.run([ours, "--text"], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    got = [json.loads(line) for line in said.split("\n") if line]
    assert len(got) == len(cases)
    if not got[0].get("compiled", True):
        print(f"{path.name}: refused: {got[0]['error']}")
        return 1
    wrong = [(c, g) for c, g in zip(cases, got) if c.get("text") != g.get("text")]
    rejected = sum("rejected" in c for c in cases)
    print(f"{path.name}: {len(cases)} conversations, {rejected} rejected by both, {len(wrong)} differ")
    for case, answer in wrong[:2]:
        print("   ", json.dumps(case["messages"], ensure_ascii=False), case["add_generation_prompt"])
        print("    got ", repr(answer.get("text", answer.get("error"))))
        print("    want", repr(case.get("text", "an error")))
    return len(wrong)


def main():
    sys.exit(sum([compare(sys.argv[1], pathlib.Path(name)) for name in sys.argv[2:]]) > 0)


main()
