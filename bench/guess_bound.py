#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/guess_bound.py ask URL PROMPTS ANSWERS [N [TOKENS]]; bench/guess_bound.py bound ROW ANSWERS...

What n-gram lookup could save at most. `ask` has a server without a drafter answer the first N of PROMPTS (lines of {"prompt"}, as
`TEXTS_ONLY=DIR bench/speculation` writes them; file name edits*: completions, others: chats) at temperature 0, and writes the ids of
prompts and answers. `bound` replays the answers as steps that take 1 + ROW k times a step without guesses if they verify k, and prints
how many times as fast answers come with

  any      at every place the earlier place of the text whose continuation is right for longest, whatever stands before it, and no guess
           verified that is wrong: no lookup in the request's own text can be better
  match    the same among places behind the same last token(s): 1, 2, 3
  newest   the newest place behind the longest match of at least 2 tokens, with no guess verified that is wrong
  learnt   the same place, and as many guesses as pay by the odds that ngram learns (plugins/drafters/ngram/README): no foresight

and for `learnt` the guesses verified, accepted, and what the odds promised.
"""
import concurrent.futures
import json
import sys
import urllib.request

MOST = 7  # [plugins] max_drafts


def ask_one(url, is_chat, prompt, tokens):
    body = {"max_tokens": tokens, "temperature": 0, "return_token_ids": True}
    body.update({"messages": [{"role": "user", "content": prompt}]} if is_chat else {"prompt": prompt})
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as response:
        answer = json.load(response)
    choice = answer["choices"][0]
    return {"prompt": choice.get("prompt_token_ids") or answer["prompt_token_ids"], "answer": choice["token_ids"]}


def ask(url, prompts, answers, n=24, tokens=128):
    is_chat = not prompts.rsplit("/", 1)[-1].startswith("edits")
    with open(prompts) as f:
        texts = [json.loads(line)["prompt"] for line in f][: int(n)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool, open(answers, "w") as out:
        for pair in pool.map(lambda text: ask_one(url, is_chat, text, int(tokens)), texts):
            print(json.dumps(pair), file=out)


def same(text, a, b, most):
    """Returns how many of the tokens from b on are those from a on, which may run into the tokens that they become."""
    n = 0
    while n < most and b + n < len(text) and text[a + n] == text[b + n]:
        n += 1
    return n


def longest_match(text, at):
    """Returns the length of the longest end of text[:at] that occurs earlier, and the newest place behind it."""
    best, place = 0, 0
    for end in range(at - 1, 0, -1):
        n = 0
        while n < 64 and n < end and text[end - 1 - n] == text[at - 1 - n]:
            n += 1
        if n > best:
            best, place = n, end
    return best, place


class Odds:
    """plugins/drafters/ngram/odds.c"""

    def __init__(self, prior):
        self.hits, self.tries, self.prior = [0.0] * 33, [0.0] * 33, prior
        self.begin()

    def begin(self):
        self.right = self.expected = 0.0

    def common(self, match):
        i = min(match, 32)
        return (self.hits[i] + 8 * self.prior(i)) / (self.tries[i] + 8)

    def of(self, match):
        return min(0.98, self.common(match) * (self.right + 4) / (self.expected + 4))

    def note(self, match, hit, first):
        if first:
            self.expected += self.common(match)
            self.right += hit
        if self.expected >= 32:
            self.expected /= 2
            self.right /= 2
        i = min(match, 32)
        self.hits[i] += hit
        self.tries[i] += 1
        if self.tries[i] >= 512:
            self.hits[i] /= 2
            self.tries[i] /= 2


def choose(odds, row):
    """Returns how many guesses make the most tokens in a time (drafts.h), and how many of them are to be right."""
    best, k, promised, tokens, chance, sum_ = 1.0, 0, 0.0, 1.0, 1.0, 0.0
    for i, one in enumerate(odds):
        chance *= one
        tokens += chance
        sum_ += chance
        if tokens / (1 + row * (i + 1)) > best:
            best, k, promised = tokens / (1 + row * (i + 1)), i + 1, sum_
    return k, promised


def walk(pairs, row, right_at):
    """Replays the answers with right_at(text, place) guesses right and verified. Returns tokens and time."""
    tokens, time = 0, 0.0
    for pair in pairs:
        text, at = pair["prompt"] + pair["answer"], len(pair["prompt"]) + 1  # the first token is the prompt's step's
        while at < len(text):
            k = right_at(text, at)
            if (1 + k) / (1 + row * k) < 1:
                k = 0
            time += 1 + row * k
            tokens += min(1 + k, len(text) - at)
            at += 1 + k
    return tokens, time


def of_any(text, at):
    return max((same(text, a, at, MOST) for a in range(1, at)), default=0)


def of_match(n):
    return lambda text, at: max((same(text, a, at, MOST) for a in range(n, at) if text[a - n : a] == text[at - n : at]), default=0)


def of_newest(text, at):
    n, place = longest_match(text, at)
    return same(text, place, at, MOST) if n >= 2 else 0


def learnt(pairs, row, prior):
    odds, tokens, time, drafted, accepted, promised = Odds(prior), 0, 0.0, 0, 0, 0.0
    for pair in pairs:
        text, at = pair["prompt"] + pair["answer"], len(pair["prompt"]) + 1
        odds.begin()
        while at < len(text):
            n, place = longest_match(text, at)
            right = same(text, place, at, MOST) if n >= 2 else 0
            k, promise = choose([odds.of(n + i) for i in range(MOST)], row) if n >= 2 else (0, 0)
            k = min(k, len(text) - at - 1)
            took = min(k, right)
            drafted, accepted, promised = drafted + k, accepted + took, promised + promise
            for i in range(1 + took if n >= 2 else 0):
                odds.note(n + i, i < right, i == 0)
                if i >= right:
                    break
            time += 1 + row * k
            tokens += min(1 + took, len(text) - at)
            at += 1 + took
    return tokens / time, drafted, accepted, promised


def bound(row, files):
    print(f"{'answers':24} {'tokens':>7} {'any':>6} {'match1':>6} {'match2':>6} {'match3':>6} {'newest':>6} {'learnt':>6}  verified, right, promised")
    for name in files:
        with open(name) as f:
            pairs = [json.loads(line) for line in f]
        cells = []
        for right_at in (of_any, of_match(1), of_match(2), of_match(3), of_newest):
            tokens, time = walk(pairs, row, right_at)
            cells.append(f"{tokens / time:6.2f}")
        speed, drafted, accepted, promised = learnt(pairs, row, PRIOR)
        print(f"{name.rsplit('/', 1)[-1]:24} {tokens:7d} {' '.join(cells)} {speed:6.2f}  {drafted}, {accepted}, {promised:.0f}")


def PRIOR(match):
    return 1 - 2 / (match + 2)


if __name__ == "__main__":
    if len(sys.argv) >= 4 and sys.argv[1] == "ask":
        ask(*sys.argv[2:])
    elif len(sys.argv) >= 4 and sys.argv[1] == "bound":
        bound(float(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(__doc__)
