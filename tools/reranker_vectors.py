# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random rerankers under t/data/reranker and their scores by transformers and torch.

    reranker_vectors.py --out t/data/reranker

`qwen3-reranker` is Qwen3ForCausalLM, as Qwen3-Reranker is published: a prompt of instruction, query and document, whose
score is the probability of "yes" among "yes" and "no" in the last row. `classifier` is what conversion makes of it for
servers: Qwen3ForSequenceClassification whose only row is the difference of the two. `rank.gguf` is the file of llama.cpp's
converter: both rows in cls.output, and the form of the prompt. reference.json has instructions, pairs of texts, the ids
that the model's card makes of them, and scores in float32; those of `classifier` are computed by its own class."""
import argparse
import json
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import gguf
import numpy
import torch
from tokenizers import Regex, Tokenizer, AddedToken, decoders, models, pre_tokenizers, trainers
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification

PREFIX = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct '
          'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
DEFAULT = "Given a web search query, retrieve relevant passages that answer the query"
CASES = [(None, "hello", "Hello, World!"), (None, "who reads the long story", "the quick brown fox jumps"),
         ("Find code that does this", "sort a list", "def f(x):\n    return sorted(x)"), (None, "dog", ""),
         ("", "a query: {document}", "braces {query} and more {{}"), (None, "größer", "你好 <Query>: hello")]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MARKS, THOUGHTS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<think>", "</think>"]


def tokenizer():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    texts = [PREFIX + DEFAULT + SUFFIX] * 3 + ["yes", "no"] * 40 + ["<Instruct>: <Query>: <Document>: "] * 5
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(texts, trainer)
    t.add_special_tokens(MARKS)
    t.add_tokens([AddedToken(name, special=False, normalized=False) for name in THOUGHTS])
    return t


def prompt(t, instruction, query, document):
    """As the model's card: the middle is tokenised by itself."""
    instruction = DEFAULT if instruction is None else instruction
    middle = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
    return [i for part in (PREFIX, middle, SUFFIX) for i in t.encode(part, add_special_tokens=False).ids]


@torch.no_grad()
def causal_score(model, ids, yes, no):
    logits = model(torch.tensor([ids])).logits[0, -1]
    return torch.log_softmax(torch.stack([logits[no], logits[yes]]).double(), 0)[1].exp().item()


@torch.no_grad()
def class_score(model, ids):
    return torch.sigmoid(model(torch.tensor([ids])).logits[0, 0].double()).item()


def save_reference(folder, prompts, scores):
    cases = [{"instruction": i, "query": q, "document": d, "ids": ids, "score": round(s, 9)}
             for (i, q, d), ids, s in zip(CASES, prompts, scores)]
    (folder / "reference.json").write_text(json.dumps(cases, indent=0, ensure_ascii=False) + "\n")


def save_gguf(path, model, t, yes, no):
    c, state = model.config, model.state_dict()
    w = gguf.GGUFWriter(str(path), "qwen3")
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_pooling_type(gguf.PoolingType.RANK)
    w.add_classifier_output_labels(["yes", "no"])
    w.add_chat_template([{"name": "rerank", "template": PREFIX + f"<Instruct>: {DEFAULT}\n<Query>: {{query}}\n<Document>: "
                          "{document}" + SUFFIX}])
    vocab = t.get_vocab(with_added_tokens=True)
    tokens = sorted(vocab, key=vocab.get)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types([3 if x in MARKS else 4 if x in THOUGHTS else 1 for x in tokens])
    w.add_token_merges([" ".join(m) for m in json.loads(t.to_str())["model"]["merges"]])
    w.add_eos_token_id(vocab["<|im_end|>"])
    w.add_add_bos_token(False)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, c.num_hidden_layers)
    for name, tensor in state.items():
        if name != "lm_head.weight":
            w.add_tensor(names.get_name(name, (".weight",)), tensor.numpy())
    head = state["model.embed_tokens.weight"]
    w.add_tensor("cls.output.weight", numpy.ascontiguousarray(torch.stack([head[yes], head[no]]).numpy()))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    torch.manual_seed(3)
    t = tokenizer()
    yes, no = t.token_to_id("yes"), t.token_to_id("no")
    c = Qwen3Config(vocab_size=t.get_vocab_size(), hidden_size=32, intermediate_size=48, num_hidden_layers=2, head_dim=8,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True,
                    bos_token_id=None, eos_token_id=t.token_to_id("<|im_end|>"), pad_token_id=0, dtype="float32")
    model = Qwen3ForCausalLM(c).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(1 + 0.2 * torch.randn(p.shape) if "norm" in name else torch.randn(p.shape) * 1.3 / p.shape[-1]**0.5)
    prompts = [prompt(t, *case) for case in CASES]
    folder = out / "qwen3-reranker"
    model.save_pretrained(folder)
    t.save(str(folder / "tokenizer.json"), pretty=False)
    save_reference(folder, prompts, [causal_score(model, ids, yes, no) for ids in prompts])
    save_gguf(out / "rank.gguf", model, t, yes, no)
    classes = Qwen3Config(**(c.to_dict() | {"num_labels": 1}))
    classifier = Qwen3ForSequenceClassification(classes).eval()
    classifier.model.load_state_dict(model.model.state_dict())
    with torch.no_grad():
        classifier.score.weight.copy_((model.lm_head.weight[yes] - model.lm_head.weight[no])[None])
    folder = out / "classifier"
    classifier.save_pretrained(folder)
    t.save(str(folder / "tokenizer.json"), pretty=False)
    save_reference(folder, prompts, [class_score(classifier, ids) for ids in prompts])
    for folder in out.glob("*/generation_config.json"):
        folder.unlink()


if __name__ == "__main__":
    main()
