# SPDX-License-Identifier: Apache-2.0
"""Answers at temperature 1 beside llguidance and Lark: grammar_client.py URL [COUNT]

Asks for COUNT answers to each of some grammars in Lark's syntax and of some structural tags,
and prints TAP: that llguidance accepts all of them (those that max_tokens cut short as
beginnings), and that Lark parses the whole ones of its grammars.
"""
import concurrent.futures
import json
import sys
import urllib.request

import lark
import llguidance

LARK = {
    "calculator": 'start: expr\n?expr: term (("+"|"-") term)*\n?term: INT | "(" expr ")"\n'
                  "%import common.INT\n%import common.WS_INLINE\n%ignore WS_INLINE\n",
    "sql": 'start: "SELECT " column ("," column)~0..2 " FROM "i TABLE -> query\n'
           'column: "col_" /[1-9]/ | "*"\nTABLE: "t" ("a".."c")+ ["_x"]\n',
    "json": "start: value\nvalue: STRING | array | /true|false/\narray: \"[\" [value (\",\" value)*] \"]\"\n"
            "STRING: \"\\\"\" /[a-z]{0,5}/ \"\\\"\"\n",
    "call": 'start: "call(" NAME ")"\nNAME: /[A-Z][a-z]{1,6}/ | "x"i\n',
}
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer"}},
          "required": ["city"], "additionalProperties": False}
TAGS = {
    "weather": ([("a=weather>", SCHEMA), ("a=now>", {"type": "null"})], "</a>", ["a"]),
    "letters": ([("e", {"type": "integer", "maximum": 99, "minimum": 0}), ("the ", {"enum": [1, 2]})], ";", ["e", "the "]),
}


def tag(name):
    structures, end, triggers = TAGS[name]
    return {"type": "structural_tag", "triggers": triggers,
            "structures": [{"begin": b, "schema": s, "end": end} for b, s in structures]}


def ask(url, kind, name, seed):
    body = {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 1, "seed": seed}
    if kind == "lark":
        body["structured_outputs"] = {"grammar": LARK[name]}
    elif seed % 2:
        body["structured_outputs"] = {"structural_tag": json.dumps(tag(name))}
    else:
        body["response_format"] = tag(name)
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    choice = json.load(urllib.request.urlopen(request, timeout=120))["choices"][0]
    return choice["finish_reason"], choice["text"]


def judge(kind, name):
    """What llguidance has compiled for it, and Lark's parser or None."""
    if kind == "lark":
        return llguidance.LLMatcher.grammar_from_lark(LARK[name]), lark.Lark(LARK[name], parser="earley", lexer="dynamic_complete")
    structures, end, triggers = TAGS[name]
    return llguidance.StructTag.to_grammar([
        llguidance.StructTag(trigger=next(t for t in triggers if b.startswith(t)), begin=b, grammar=s, end=end)
        for b, s in structures]), None


def wrong(answer, grammar, parser, tokens):
    reason, text = answer
    matcher = llguidance.LLMatcher(tokens, grammar)
    if matcher.get_error():
        return matcher.get_error()
    data = list(text.encode())
    if matcher.try_consume_tokens(data) != len(data):
        return "llguidance refuses it"
    if reason == "stop" and not matcher.is_accepting():
        return "llguidance does not let it end"
    if reason == "stop" and parser is not None:
        try:
            parser.parse(text)
        except lark.LarkError as error:
            return "lark: " + str(error).splitlines()[0]
    return None


def main():
    url, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    tokens = llguidance.LLTokenizer("byte")
    kinds = [("lark", n) for n in LARK] + [("tag", n) for n in TAGS]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for number, (kind, name) in enumerate(kinds, 1):
            answers = list(pool.map(lambda seed: ask(url, kind, name, seed), range(1, count + 1)))
            grammar, parser = judge(kind, name)
            found = [(a, e) for a in answers if (e := wrong(a, grammar, parser, tokens))]
            whole = sum(reason == "stop" for reason, _ in answers)
            marks = sum(TAGS[name][1] in text for _, text in answers) if kind == "tag" else whole
            good = not found and marks > 0
            bad += not good
            print("%sok %d - %s %s: %d answers, %d whole, %d of them of interest" %
                  ("" if good else "not ", number, kind, name, len(answers), whole, marks))
            for answer, error in found[:3]:
                print("# %s: %s" % (answer, error))
    print("1..%d" % len(kinds))
    return bad > 0


sys.exit(main())
