# SPDX-License-Identifier: Apache-2.0
"""Trains the tokeniser and the demo model on the output of make_text.py and writes a Hugging Face folder.

    train.py --text train.jsonl --tokens 8e6 --out share/demo-model

One core: the batches are whole dialogues of like length (no dialogue sees another one), the hidden matrices are
trained with Muon (Jordan et al. 2024), which needs about half the tokens that AdamW needs here, everything else with
AdamW. The answers count fully in the loss, the prompts a tenth.
"""
import argparse
import itertools
import json
import os
import random
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
END_OF_TEXT, IM_START, IM_END, PAD = range(4)
PROMPT_WEIGHT = 0.1
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def train_tokenizer(samples, vocab):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab,
                                  special_tokens=SPECIAL,
                                  show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        (m["content"] for s in samples for m in [{"content": "system\nuser\nassistant\n"}] + s["messages"]), trainer)
    return tokenizer


def encode(tokenizer, sample):
    """(token ids, weight of each token in the loss)"""
    ids, weights = [], []

    def add(new, weight):
        ids.extend(new)
        weights.extend([weight] * len(new))

    for message in sample["messages"]:
        content = tokenizer.encode(message["content"]).ids
        if message["role"] == "text":
            add(content + [END_OF_TEXT], 1.0)
            continue
        add([IM_START] + tokenizer.encode(message["role"] + "\n").ids, 0.0)
        add(content + [IM_END], 1.0 if message["role"] == "assistant" else PROMPT_WEIGHT)
        add(tokenizer.encode("\n").ids, 0.0)
    return ids, weights


def batches(documents, tokens, rng):
    """Endless batches of about that many tokens; the documents of a batch have about the same length."""
    while True:
        order = list(range(len(documents)))
        rng.shuffle(order)
        window = 4096
        for start in range(0, len(order), window):
            part = sorted(order[start:start + window], key=lambda i: len(documents[i][0]))
            groups, group = [], []
            for i in part:
                if group and (len(group) + 1) * len(documents[i][0]) > tokens:
                    groups.append(group)
                    group = []
                group.append(i)
            groups.append(group)
            rng.shuffle(groups)
            for group in groups:
                yield collate([documents[i] for i in group])


def collate(documents):
    width = max(len(ids) for ids, _ in documents)
    ids = torch.full((len(documents), width), PAD)
    weights = torch.zeros(len(documents), width)
    for row, (i, w) in enumerate(documents):
        ids[row, :len(i)] = torch.tensor(i)
        weights[row, :len(i)] = torch.tensor(w)
    return ids, weights


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised by five Newton-Schulz steps (Jordan et al. 2024, kellerjordan.github.io/posts/muon)."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(buffer, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1, p.size(0) / p.size(1))**0.5)


def orthogonal(g, steps=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g / (g.norm() + 1e-7)
    flip = x.size(0) > x.size(1)
    x = x.T if flip else x
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if flip else x


def make_model(args, vocab):
    config = LlamaConfig(vocab_size=vocab,
                         hidden_size=args.hidden,
                         intermediate_size=args.ffn,
                         num_hidden_layers=args.layers,
                         num_attention_heads=args.heads,
                         num_key_value_heads=args.kv_heads,
                         head_dim=args.hidden // args.heads,
                         max_position_embeddings=1024,
                         rms_norm_eps=1e-5,
                         rope_theta=10000.0,
                         tie_word_embeddings=True,
                         bos_token_id=END_OF_TEXT,
                         eos_token_id=IM_END,
                         pad_token_id=PAD,
                         attention_bias=False,
                         mlp_bias=False,
                         initializer_range=0.02)
    return LlamaForCausalLM(config)


def loss_of(model, ids, weights):
    hidden = model.model(ids[:, :-1]).last_hidden_state
    keep = weights[:, 1:] > 0
    logits = model.lm_head(hidden[keep])
    each = F.cross_entropy(logits, ids[:, 1:][keep], reduction="none")
    weight = weights[:, 1:][keep]
    return (each * weight).sum() / weight.sum()


def rate(step, done, decay):
    """Share of the learning rate: a short rise, level, then a straight line to zero over the last part."""
    return min(1.0, (step + 1) / 50) * min(1.0, max(0.0, 1 - done) / decay)


def train(model, documents, args):
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    rest = [p for n, p in model.named_parameters() if p.dim() != 2 or "embed" in n]
    optimizers = [
        Muon(matrices, lr=args.muon_lr),
        torch.optim.AdamW(rest, lr=args.adam_lr, betas=(0.9, 0.95), weight_decay=0.0)
    ]
    seen, first, average = resume(model, optimizers, args.checkpoint)
    stream = itertools.islice(batches(documents, args.batch, random.Random(args.seed)), first, None)
    start, seen_before = time.time(), seen
    for step, (ids, weights) in enumerate(stream, first):
        scale = rate(step, seen / args.tokens, args.decay)
        for optimizer, lr in zip(optimizers, [args.muon_lr, args.adam_lr]):
            optimizer.param_groups[0]["lr"] = lr * scale
        loss = loss_of(model, ids, weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)
        seen += ids.numel()
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if step % 50 == 49:
            speed = (seen - seen_before) / (time.time() - start)
            print(f"step {step + 1} tokens {seen / 1e6:.2f}M loss {average:.4f} {speed:.0f} tokens/s", flush=True)
        if step % 250 == 249 and args.checkpoint and scale >= 1.0:  # so that any longer run can go on from here
            torch.save(
                {
                    "model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
                    "progress": (seen, step + 1, average)
                }, args.checkpoint)
        if seen >= args.tokens:
            break
    print(f"done: {step + 1} steps, {seen} tokens, loss {average:.4f}", flush=True)


def resume(model, optimizers, path):
    """(tokens seen, steps done, average loss) of a checkpoint, or a start from nothing."""
    if not path or not os.path.exists(path):
        return 0, 0, None
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    for optimizer, state in zip(optimizers, saved["optimizers"]):
        optimizer.load_state_dict(state)
    return saved["progress"]


def write_folder(model, tokenizer, out):
    """The Hugging Face layout; bf16 weights, the config by hand so that no library's private keys are in it."""
    from safetensors.torch import save_file
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    tensors = {n: p.detach().to(torch.bfloat16).contiguous() for n, p in model.named_parameters()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    c = model.config
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size, "intermediate_size": c.intermediate_size,
        "num_hidden_layers": c.num_hidden_layers, "num_attention_heads": c.num_attention_heads,
        "num_key_value_heads": c.num_key_value_heads, "head_dim": c.head_dim, "hidden_act": "silu",
        "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None,
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True, "bos_token_id": END_OF_TEXT,
        "eos_token_id": IM_END, "pad_token_id": PAD, "torch_dtype": "bfloat16"
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1024, "bos_token": None,
        "eos_token": "<|im_end|>", "pad_token": "<|pad|>", "add_bos_token": False,
        "clean_up_tokenization_spaces": False, "chat_template": CHAT_TEMPLATE
    }
    generation = {
        "bos_token_id": END_OF_TEXT, "eos_token_id": [IM_END, END_OF_TEXT], "pad_token_id": PAD, "do_sample": True,
        "temperature": 0.7, "top_p": 0.95
    }
    for name, value in (("config", config), ("tokenizer_config", tokenizer_config), ("generation_config",
                                                                                     generation)):
        (out / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n")
    tokenizer.save(str(out / "tokenizer.json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--tokens", type=float, default=8e6)
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--ffn", type=int, default=512)
    parser.add_argument("--batch", type=int, default=2048, help="tokens in a step")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=4e-3)
    parser.add_argument("--decay", type=float, default=0.3, help="last share of the run in which the rate falls")
    parser.add_argument("--checkpoint", help="file to keep the state of the level part in, and to go on from")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    samples = [json.loads(line) for line in open(args.text)]
    tokenizer = train_tokenizer(samples[:30000], args.vocab)
    documents = [d for d in (encode(tokenizer, s) for s in samples) if len(d[0]) <= 1024]
    size = sum(len(ids) for ids, _ in documents)
    print(f"{len(documents)} documents, {size / 1e6:.1f}M tokens, vocab {tokenizer.get_vocab_size()}", flush=True)
    model = make_model(args, tokenizer.get_vocab_size())
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters", flush=True)
    train(model, documents, args)
    write_folder(model, tokenizer, args.out)


if __name__ == "__main__":
    main()
