# SPDX-License-Identifier: Apache-2.0
"""Writes the training text of the demo model: dialogues about a small world, as JSON lines.

    make_text.py --seed 1 --count 150000 > train.jsonl

A line is {"kind", "messages": [{"role", "content"}...], "want"}; "want" is what an answer of the right form looks
like ({"items": n}, {"sentences": n}, {"words": 1} ...) and is what evaluate.py counts. The same seed gives the
same text. What makes the model useful for experiments is that the length of the answer follows from the prompt,
so every kind has many wordings and every length has its own.
"""
import argparse
import json
import random

import answers

WEIGHTS = {  # share of each kind among single-turn dialogues
    "greeting": 4, "word": 6, "sentence": 9, "sentences": 7, "list": 16, "count": 4, "repeat": 2, "question": 14,
    "describe": 6, "steps": 4, "poem": 3, "story_n": 12, "story": 7, "story_short": 3, "story_long": 8, "unknown": 4,
}
SYSTEM = [
    "You are a helpful assistant.", "You are a friendly assistant.", "Answer in simple words.", "Be kind and clear.",
    "You know a small world of people, animals and places."
]
FOLLOW_UPS = {
    "list": ["And {core}?", "Now {core}.", "Good. Next, {core}."],
    "story_n": ["Another one, please.", "One more story, please.", "Tell me another one."],
}
THANKS = ["Thank you!", "Thanks.", "Thank you very much.", "Thanks a lot!", "That was nice, thank you."]
WELCOME = [
    "You are welcome!", "You are welcome. I am glad to help.", "I am happy that you like it!", "With pleasure!"
]
FRAMES = [
    "{c}.", "{c}.", "{c}.", "{c}", "{c}, please.", "Please {l}.", "Please, {l}.", "Can you {l}?", "Could you {l}?",
    "Could you please {l}?", "Would you {l}?", "I want you to {l}.", "I would like you to {l}.", "Hello! {c}.",
    "Hi, can you {l}?", "Hey, {l}.", "Now {l}.", "{l}", "{l} please", "{c}!", "Your task: {l}.", "I need you to {l}.",
    "Will you {l}?", "Go on and {l}.", "My wish: {l}."
]


def frame(rng, core):
    """One of the ways in which people ask for something."""
    if rng.random() < 0.4:
        return core[0].upper() + core[1:] + "."
    text = rng.choice(FRAMES).format(c=core[0].upper() + core[1:], l=core)
    return text


def turn(rng, kind):
    """(user text, answer, want); a maker gives an imperative to be framed, or a finished text."""
    asked, answer, want = answers.MAKERS[kind](rng)
    if asked.startswith("="):  # already a whole sentence
        asked = asked[1:]
        if rng.random() < 0.08:
            asked = asked.lower()
        elif rng.random() < 0.08:
            asked = asked.rstrip("?.!")
        return asked, answer, want
    return frame(rng, asked), answer, want


def message(role, content):
    return {"role": role, "content": content}


def dialogue(rng):
    kind = rng.choices(list(WEIGHTS), WEIGHTS.values())[0]
    asked, answer, want = turn(rng, kind)
    messages = [message("user", asked), message("assistant", answer)]
    if rng.random() < 0.10:
        messages.insert(0, message("system", rng.choice(SYSTEM)))
    return kind, messages, want


def conversation(rng):
    """Two to five turns, most of them about new matters, some leaning on the turn before."""
    kind, messages, want = dialogue(rng)
    for _ in range(rng.randint(1, 4)):
        draw = rng.random()
        if draw < 0.2:
            messages += [message("user", rng.choice(THANKS)), message("assistant", rng.choice(WELCOME))]
            kind, want = "greeting", {"sentences_at_most": 2}
            continue
        if draw < 0.45 and kind in ("story", "story_short"):
            asked, answer, want = answers.MAKERS[kind](rng)
            asked = rng.choice(FOLLOW_UPS["story_n"])
        else:
            kind = rng.choices(list(WEIGHTS), WEIGHTS.values())[0]
            asked, answer, want = turn(rng, kind)
            if rng.random() < 0.15:
                asked = rng.choice(["Good. ", "Thank you. ", "OK. ", "And now: "]) + asked
        messages += [message("user", asked), message("assistant", answer)]
    return "turns", messages, want


def plain(rng):
    """A story without any dialogue, for plain completions."""
    kind = rng.choice(["story_n", "story", "story_long"])
    return "plain", [message("text", answers.MAKERS[kind](rng)[1])], {}


def sample(rng):
    draw = rng.random()
    kind, messages, want = dialogue(rng) if draw < 0.88 else conversation(rng) if draw < 0.96 else plain(rng)
    return {"kind": kind, "messages": messages, "want": want}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150000)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    for _ in range(args.count):
        print(json.dumps(sample(rng), ensure_ascii=False))


if __name__ == "__main__":
    main()
