#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures llguidance and XGrammar as bench/grammar measures llmserve: the same schemas, documents,
tokens and vocabulary, CPU time of one thread.

    bench/grammar MODEL --ids FILE... >IDS
    bench/grammar_peers.py llguidance|xgrammar IDS FILE...

Needs the library (and numpy, or torch for XGrammar) in the interpreter that runs it.
"""
import json
import sys
import time


def load(path):
    with open(path) as lines:
        tokens = [bytes.fromhex(t) for t in json.loads(next(lines))]
        return tokens, [json.loads(line) for line in lines]


class Llguidance:
    def __init__(self, tokens, end):
        import llguidance

        class Wrapper:
            eos_token_id = end
            bos_token_id = None
            special_token_ids = [end]

            def __init__(self):
                self.tokens = tokens

            def __call__(self, text):
                return []

        self.library = llguidance
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapper()))

    def compile(self, schema):
        make = self.library.LLMatcher
        grammar = make.grammar_from_json_schema(json.dumps(schema))
        matcher = make(self.tokenizer, grammar)
        if matcher.get_error():
            raise ValueError(matcher.get_error())
        return matcher

    def begin(self, compiled):
        compiled.reset()
        return compiled

    def mask(self, matcher):
        matcher.compute_bitmask()

    def take(self, matcher, token):
        return matcher.consume_token(token)


class Xgrammar:
    def __init__(self, tokens, end):
        import xgrammar
        self.library = xgrammar
        info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW,
                                      vocab_size=len(tokens), stop_token_ids=[end])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.bits = xgrammar.allocate_token_bitmask(1, len(tokens))

    def compile(self, schema):
        return self.compiler.compile_json_schema(json.dumps(schema))

    def begin(self, compiled):
        return self.library.GrammarMatcher(compiled)

    def mask(self, matcher):
        matcher.fill_next_token_bitmask(self.bits)

    def take(self, matcher, token):
        return matcher.accept_token(token)


def report(what, seconds):
    us = sorted(s * 1e6 for s in seconds)

    def at(q):
        return us[int(q * (len(us) - 1))]

    print(f"{what:12} {len(us):8}  mean {sum(us) / len(us):.1f} us  " +
          "  ".join(f"p{q * 100:g} {at(q):.1f}" for q in (0.5, 0.9, 0.99, 0.999, 1)))


def main():
    name, ids, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    tokens, documents = load(ids)
    end = next(i for i in reversed(range(len(tokens))) if not tokens[i])
    peer = {"llguidance": Llguidance, "xgrammar": Xgrammar}[name](tokens, end)
    of_file = {}
    for number, *tokens_of in documents:
        of_file.setdefault(number, []).append(tokens_of)
    compiles, masks, refused, wrong = [], [], 0, 0
    for number, path in enumerate(files):
        schema = json.load(open(path)).get("schema")
        if schema is None:
            continue
        began = time.process_time()
        try:
            compiled = peer.compile(schema)
        except Exception:
            refused += 1
            continue
        compiles.append(time.process_time() - began)
        for document in of_file.get(number, []):
            matcher = peer.begin(compiled)
            for token in document:
                began = time.process_time()
                peer.mask(matcher)
                masks.append(time.process_time() - began)
                if not peer.take(matcher, token):
                    wrong += 1
                    break
    report("compile", compiles)
    report("mask", masks)
    print(f"{refused} schemas refused; {wrong} valid documents refused")


main()
