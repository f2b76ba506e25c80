# SPDX-License-Identifier: Apache-2.0
"""Chat templates and tokenisers beside those of Jinja and Hugging Face, by the dice.

    outside.py templates|tokenizers SOURCE BUILD SEED SECONDS

Templates are made of the language's parts as a seed says and rendered by both; one that we
refuse to compile with a sentence is counted, not wrong, and so is one of which Jinja says
that it is in error where we make a text.
Tokenisers get random Unicode, and pieces of their own vocabulary in random order. Prints a
line for each difference, and a last line with the figures.
"""
import importlib.util
import json
import pathlib
import random
import re
import subprocess
import sys
import time
import warnings

what, source, build, seed, seconds = sys.argv[1], *map(pathlib.Path, sys.argv[2:4]), *map(int, sys.argv[4:6])
sys.path.insert(0, str(source / "tools"))
END = time.time() + seconds
draw = random.Random(seed)
wrong = []
warnings.simplefilter("ignore")

STRINGS = ["", "a", " b c ", "x,y,z", "Hello World", "\u00e4\u00d6\u4eac", "1", "-2.5", "<b>&amp;\"'", "l1\nl2\n", "%s", "aXbXc"]
# Expressions by what they are, since most of what is not is an error in both: `text`, `number`, `truth`,
# `items` (a list of texts) and, one time in twenty, anything in any place.
TEXT_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "replace('a', 'bb')", "default('d')", "default('d', true)", "string", "tojson",
                "indent(2)", "reverse", "safe", "escape", "first", "last"]
TEXT_METHODS = [".strip()", ".upper()", ".lower()", ".title()", ".split('X', 1)[-1]", ".lstrip('a ')", ".rstrip()", ".replace('X', '')",
                ".rsplit('X', 1)[0]", ".capitalize()", "[1:]", "[:-1]", "[::-1]", "[::2]", "[5:2]", "[-2:]", ".strip('<>')"]
ITEMS_FILTERS = ["sort", "reverse|list", "unique|list", "map('upper')|list", "select|list", "list", "reject('equalto', 'a')|list", "map('trim')|list"]
TEXT_TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "in ['1', 'a', none]", "eq 'a'", "sameas none"]
NUMBER_TESTS = ["odd", "even", "integer", "number", "string", "divisibleby 2", "eq 1", "float"]


def any_of(*makers):
    return draw.choice(makers)


def text(depth=0):
    if draw.random() < .05:
        return any_of(number, truth, items)(depth + 1)
    kind = draw.random() if depth < 4 else 0
    if kind < .3:
        return draw.choice([repr(draw.choice(STRINGS)), repr(draw.choice(STRINGS)), "m.role", "m.content", "m['content']", "s", "s", "bos_token", "d.k", "nothing", "messages[0].content"])
    if kind < .5:
        return f"({text(depth + 1)})|{draw.choice(TEXT_FILTERS)}"
    if kind < .7:
        return f"({text(depth + 1)}){draw.choice(TEXT_METHODS)}"
    if kind < .75:
        return f"({text(depth + 1)} if {truth(depth + 1)} else {text(depth + 1)})"
    if kind < .8:
        return f"({items(depth + 1)})|join({draw.choice(STRINGS)!r})"
    if kind < .85:
        return f"({any_of(number, truth, items)(depth + 1)})|{draw.choice(['string', 'tojson'])}"
    return f"({text(depth + 1)}) {draw.choice('+~')} ({text(depth + 1)})"


def number(depth=0):
    kind = draw.random() if depth < 4 else 0
    if kind < .35:
        return draw.choice([str(draw.randint(-3, 9)), str(draw.choice([0.5, 2.0, 1e3])), "loop.index", "loop.index0", "n", "d.z", "ns.v", "messages|length"])
    if kind < .5:
        return f"({any_of(text, items)(depth + 1)})|{draw.choice(['length', 'count'])}"
    if kind < .55:
        return f"({text(depth + 1)})|{draw.choice(['int', 'float', 'int(7)'])}"
    if kind < .62:
        return f"({number(depth + 1)})|{draw.choice(['abs', 'round', 'int', 'float', 'round(1)'])}"
    if kind < .7:
        return f"({text(depth + 1)}){draw.choice(['.find', '.count', '.rfind'])}({draw.choice(STRINGS)!r})"
    return f"({number(depth + 1)}) {draw.choice(['+', '-', '*', '/', '//', '%'])} ({number(depth + 1)})"


def truth(depth=0):
    kind = draw.random() if depth < 4 else 0
    if kind < .2:
        return draw.choice(["true", "false", "loop.first", "loop.last", "add_generation_prompt", "nothing", "tools"])
    if kind < .4:
        return f"({text(depth + 1)}) is {draw.choice(['', 'not '])}{draw.choice(TEXT_TESTS)}"
    if kind < .5:
        return f"({number(depth + 1)}) is {draw.choice(['', 'not '])}{draw.choice(NUMBER_TESTS)}"
    if kind < .6:
        return f"({text(depth + 1)}).{draw.choice(['startswith', 'endswith'])}({draw.choice(STRINGS)!r})"
    if kind < .7:
        return f"({text(depth + 1)}) {draw.choice(['in', 'not in'])} ({any_of(text, items)(depth + 1)})"
    if kind < .8:
        maker = any_of(text, number)
        return f"({maker(depth + 1)}) {draw.choice(['==', '!=', '<', '>', '<=', '>='])} ({maker(depth + 1)})"
    return f"({truth(depth + 1)}) {draw.choice(['and', 'or'])} ({draw.choice(['', 'not '])}({truth(depth + 1)}))"


def items(depth=0):
    kind = draw.random() if depth < 4 else 0
    if kind < .3:
        return draw.choice(["['b', 'a', 'B']", "[]", "['x']", "(s|list)", "messages|map(attribute='role')|list"])
    if kind < .5:
        return f"({text(depth + 1)}).{draw.choice(['split()', 'split(chr)', 'splitlines()'])}".replace("chr", repr(draw.choice([c for c in STRINGS if c])))
    if kind < .6:
        return f"({items(depth + 1)}) + ({items(depth + 1)})"
    if kind < .7:
        return f"({items(depth + 1)}){draw.choice(['[1:]', '[::-1]', '[:2]'])}"
    if kind < .8:
        return f"[{text(depth + 1)}, {text(depth + 1)}]"
    return f"({items(depth + 1)})|{draw.choice(ITEMS_FILTERS)}"


def expression(depth=0):
    return any_of(text, text, number, truth, items)(depth)


def tag(inner):
    return "{%" + draw.choice(["", "", "-", "+"]) + f" {inner} " + draw.choice(["", "", "-"]) + "%}" + draw.choice(["", "\n", " "])


def statement(depth=0):
    kind = draw.random()
    if depth > 2 or kind < .3:
        return draw.choice(["text", " \n ", "<|im|>\n", "\t"])
    if kind < .65:
        return "{{" + draw.choice(["", "-"]) + f" {expression()} " + draw.choice(["", "-"]) + "}}" + draw.choice(["", "\n"])
    if kind < .75:
        return tag(f"if {truth()}") + block(depth) + (tag("else") + block(depth) if draw.random() < .5 else "") + tag("endif")
    if kind < .87:
        over = draw.choice(["messages", "messages[1:]", "messages", "d.items()", "(messages|reverse)", "messages[::-1]"])
        target = "k, v" if over == "d.items()" else "m"
        condition = draw.choice(["", "", f" if {truth(2)}"])
        return tag(f"for {target} in {over}{condition}") + block(depth) + tag(draw.choice(["endfor"])) if draw.random() < .8 else \
            tag(f"for {target} in {over}") + block(depth) + tag("else") + block(depth) + tag("endfor")
    if kind < .97:
        return tag(draw.choice([f"set s = {text()}", f"set n = {number()}", f"set ns.v = {number()}"]))
    return "{# " + draw.choice(STRINGS).replace("#", "") + " #}"


def block(depth):
    return "".join(statement(depth + 1) for _ in range(draw.randint(1, 3)))


def template():
    return "{% set ns = namespace(v=1) %}{% set d = {'k': 'v', 'z': 2} %}{% set s = 'aXb' %}{% set n = 3 %}" + \
        "".join(statement() for _ in range(draw.randint(1, 5)))


def templates():
    import template_vectors as vectors
    env, counts = vectors.environment(), {"templates": 0, "rendered": 0, "rejected": 0, "left out": 0, "we render what Jinja rejects": 0}
    messages = [{"role": "system", "content": " Be kind. "}, {"role": "user", "content": "Hi <b> \u4eac\n"}, {"role": "assistant", "content": "aXbXc"}]
    while time.time() < END or counts["templates"] == 0:
        cases = [vectors.case(env, template(), messages, draw.random() < .5) for _ in range(200)]
        lines = [json.dumps(dict(c, bos=vectors.BOS, eos=vectors.EOS, time=1700000000)) for c in cases]
        said = subprocess.run([build / "bench/template", "--text"], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
        for c, line in zip(cases, [line for line in said.split("\n") if line], strict=True):
            got = json.loads(line)
            counts["templates"] += 1
            if not got.get("compiled", True):
                counts["left out"] += 1
            elif "text" in c and got.get("text") == c["text"]:
                counts["rendered"] += 1
            elif "text" not in c and "text" not in got:
                counts["rejected"] += 1
            elif "text" not in c:
                counts["we render what Jinja rejects"] += 1
            elif " at 0x" not in c.get("text", ""):
                wrong.append(f"{c['source']!r}\n    got  {got.get('text', got.get('error'))!r}\n    want {c.get('text', c.get('why'))!r}")
    return counts


def tokenizers():
    spec = importlib.util.spec_from_file_location("vectors", source / "tools/tokenizer_vectors.py")
    vectors = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vectors)
    import tokenizers as reference
    folders = sorted(p.parent for p in (source / "t/data/tokenizer").glob("*/tokenizer.json")) + [source / "share/demo-model"]
    counts, alphabet = {"tokenisers": len(folders), "strings": 0}, vectors.characters()
    loaded = {}
    for folder in folders:
        loaded[folder] = reference.Tokenizer.from_file(str(folder / "tokenizer.json"))
        loaded[folder].no_truncation()
        loaded[folder].no_padding()
    while time.time() < END or counts["strings"] == 0:
        for folder, theirs in loaded.items():
            pieces = list(theirs.get_vocab())
            texts = ["".join(draw.choice(alphabet) for _ in range(draw.randint(0, 40))) for _ in range(100)]
            texts += ["".join(draw.choice(pieces) for _ in range(draw.randint(1, 12))) for _ in range(100)]
            said = subprocess.run([build / "bench/tokenizer", folder, "--ids"], input="\n".join(map(json.dumps, texts)),
                                  capture_output=True, text=True, check=True).stdout
            for text, line in zip(texts, [line for line in said.split("\n") if line], strict=True):
                ids, decoded = json.loads(line)
                want = theirs.encode(text).ids
                back = theirs.decode(want, skip_special_tokens=False)
                counts["strings"] += 1
                # Theirs gives up all bytes in a row where one is no UTF-8, also those that a
                # stream has sent already.
                same = decoded == back or re.search("<0x[0-9A-F]{2}>", text)
                if ids != want or not same:
                    wrong.append(f"{folder.name}: {text!r}\n    got  {ids} {decoded!r}\n    want {want} {back!r}")
    return counts


figures = templates() if what == "templates" else tokenizers()
for line in wrong[:10]:
    print(line)
print(json.dumps({**figures, "different": len(wrong)}))
