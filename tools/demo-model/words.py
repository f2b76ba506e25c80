# SPDX-License-Identifier: Apache-2.0
"""Small helpers about words: articles, plurals, numbers, words nobody knows."""
from world import NUMBERS, PLURALS


def article(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


def capital(text):
    return text[0].upper() + text[1:]


def plural(noun):
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def number(rng, n):
    return NUMBERS[n] if rng.random() < 0.6 else str(n)


def made_up(rng):
    """A word nobody knows, so that the model learns to copy what it is asked about."""
    return "".join(
        rng.choice("b d f g k l m n p r s t v z bl br dr fl gr kr pl st tr".split()) + rng.choice("aeiou")
        for _ in range(rng.randint(1, 3))) + rng.choice(["n", "r", "l", "x", "k", "t", "m", "nt", "rd", ""])
