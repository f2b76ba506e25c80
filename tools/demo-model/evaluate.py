# SPDX-License-Identifier: Apache-2.0
"""Measures the demo model: does it end by itself, has the answer the form that was asked for, how long is it.

    evaluate.py --model share/demo-model [--count 400] [--prompts]

The instructions come from make_text.py with a seed that training never used. --prompts prints answers to a few
hand-written prompts instead.
"""
import argparse
import random
import re
from collections import defaultdict

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import make_text

HAND_PROMPTS = [
    "Hello", "Who are you?", "Tell me a story about a dog", "Tell me a long story about a fox.",
    "Write one sentence about rain.", "List five animals.", "list 3 colours", "Name one fruit.",
    "What colour is the sky?", "What does a cow eat?", "Tell me a story about a dragon in three sentences.",
    "Give me ten girls' names please", "How do I make tea?", "Count to seven.", "Write a poem about a cat.",
    "What is the capital of France?", "Describe the forest.", "Write 2 sentences about the king.",
    "Could you tell me a short story about Anna the painter?", "What is three plus four?",
    "Explain how a computer works", "I would love a bedtime story about a little owl",
    "Which animals live in the sea? Name four.", "Say hello three times."
]


def sentences(text):
    return len(re.findall(r"[.!?]\"?(?:\s|$)", text))


def right_form(answer, want):
    """Whether the answer has the number of items, sentences or words that was asked for."""
    lines = [line for line in answer.split("\n") if line]
    checks = {
        "items": lambda n: len(lines) == n and all(line.startswith(f"{i}. ")
                                                   for i, line in enumerate(lines, 1)) and len(set(lines)) == n,
        "sentences": lambda n: sentences(answer) == n,
        "sentences_at_most": lambda n: 1 <= sentences(answer) <= n,
        "sentences_between": lambda n: n[0] <= sentences(answer) <= n[1],
        "words": lambda n: 1 <= len(answer.split()) <= n if n <= 2 else len(answer.split()) == n,
        "lines": lambda n: len(lines) == n,
        "parts": lambda n: len(answer.split(",")) == n,
    }
    return all(checks[key](value) for key, value in want.items())


class Answerer:

    def __init__(self, folder, temperature):
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.sampling = dict(do_sample=True, temperature=temperature, top_p=0.95) if temperature > 0 else dict(
            do_sample=False, temperature=None, top_p=None)
        self.end = self.tokenizer.convert_tokens_to_ids("<|im_end|>")

    @torch.no_grad()
    def answer(self, conversations, limit):
        """For each conversation: (text, tokens without the end token, ended by itself)"""
        texts = [
            self.tokenizer.apply_chat_template(c, tokenize=False, add_generation_prompt=True) for c in conversations
        ]
        batch = self.tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
        out = self.model.generate(**batch,
                                  max_new_tokens=limit,
                                  eos_token_id=self.end,
                                  pad_token_id=3,
                                  **self.sampling)
        results = []
        for row in out[:, batch["input_ids"].shape[1]:].tolist():
            ended = self.end in row
            row = row[:row.index(self.end)] if ended else row
            results.append((self.tokenizer.decode(row), len(row), ended))
        return results


def measure(answerer, count, seed, limit):
    rng = random.Random(seed)
    samples = [(kind, *make_text.turn(rng, kind)) for kind in make_text.WEIGHTS
               for _ in range(max(8, count * make_text.WEIGHTS[kind] // 100))]
    rows = defaultdict(list)
    for start in range(0, len(samples), 32):
        part = samples[start:start + 32]
        answers = answerer.answer([[{"role": "user", "content": s[1]}] for s in part], limit)
        for (kind, asked, _, want), (text, length, ended) in zip(part, answers):
            rows[kind].append((ended, right_form(text, want), length, asked, text))
    return rows


def report(rows, show_wrong):
    print(f"{'kind':12} {'n':>4} {'ended':>6} {'form':>6}   tokens: p10  median  p90  mean")
    everything = [r for kind in rows.values() for r in kind]
    for kind, results in list(rows.items()) + [("all", everything)]:
        lengths = sorted(r[2] for r in results)
        n = len(results)
        print(f"{kind:12} {n:4} {sum(r[0] for r in results) / n:6.1%} {sum(r[1] for r in results) / n:6.1%}"
              f"          {lengths[n // 10]:4} {lengths[n // 2]:7} {lengths[n * 9 // 10]:4} {sum(lengths) / n:5.0f}")
    for kind, results in rows.items():
        for _, right, _, asked, text in [r for r in results if not r[1]][:show_wrong]:
            print(f"\nwrong form ({kind}): {asked}\n{text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20240607)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--limit", type=int, default=700)
    parser.add_argument("--wrong", type=int, default=0, help="answers of the wrong form to print for each kind")
    parser.add_argument("--prompts", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    answerer = Answerer(args.model, args.temperature)
    if not args.prompts:
        report(measure(answerer, args.count, args.seed, args.limit), args.wrong)
        return
    for prompt in HAND_PROMPTS:
        text, length, ended = answerer.answer([[{"role": "user", "content": prompt}]], args.limit)[0]
        print(f"> {prompt}\n{text}\n[{length} tokens{'' if ended else ', not ended'}]\n")


if __name__ == "__main__":
    main()
