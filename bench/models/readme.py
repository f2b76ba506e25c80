# SPDX-License-Identifier: Apache-2.0
"""README's table of the models that can be loaded, made of the families that table.py checks; see table.py --readme.

A row has a title, the names of its families in families.py, and what older tests check beside them: "both" (folders and
GGUF files) or "folder", by t/unit/test_engine, test_gguf, test_encoder, test_gguf_encoder, t/api/encoder.t and reranker.t with the
models of t/data. Folders of every family are read. GGUF files are, if each family of the row has one in families.py and
the older ones have; `gguf` says what holds where they differ."""
from pathlib import Path

FIRST, LAST = "    architecture                        folder  GGUF\n", "\nAnything else is refused"


def row(title, *families, older=None, gguf=None):
    return {"title": title, "families": families, "older": older, "gguf": gguf}


ROWS = [
    row("Llama 2, 3; Mistral; Yi; SmolLM2", older="both"),
    row("Qwen2, Qwen2.5, Qwen3", older="both"),
    row("Gemma 2; Gemma 3, 3n, 4: text parts", "gemma-3n", "gemma-4-e4b", "gemma-4-31b", "gemma-4-26b", older="both"),
    row("Phi-3, Phi-4", older="both"),
    row("SmolLM3; OLMo 2, 3; Granite 3", "olmo-3", "granite-3", older="both"),
    row("ERNIE 4.5; Seed-OSS; GLM-4 (0414)", "ernie-4.5", "seed-oss", "glm-4"),
    row("EXAONE 4; Hunyuan, dense", "exaone-4", "hunyuan"),
    row("Command R, R7B and A", "command-r", "command-r7b"),
    row("Qwen2-VL to Qwen3-VL, Mistral\nSmall 3, Ministral 3: text parts", "qwen3-vl", "qwen2.5-vl", "mistral-small-3",
        "ministral-3"),
    row("StarCoder2; StableLM; Falcon", "starcoder2", "stablelm", "falcon", "falcon-40b"),
    row("GPT-2; GPT-NeoX, Pythia; Bloom", "gpt-2", "pythia", "bloom", older="both"),
    row("Phi-1, 1.5 and 2; MPT; MiniCPM", "phi-2", "mpt", "minicpm"),
    row("Apertus; Nemotron, dense", "apertus", "nemotron"),
    # gpt-oss-16 is the folder in 16 bits; GGUF files are as the older tests have them
    row("Mixtral; Qwen3-MoE; gpt-oss", "gpt-oss-16", older="both", gguf="yes"),
    row("Qwen3-VL-MoE: text part", "qwen3-vl-moe"),
    row("Qwen2-MoE; Hunyuan A13B", "qwen2-moe", "hunyuan-a13b"),
    row("GLM-4.5 to 4.7; MiniMax M2", "glm-4.5", "minimax-m2"),
    row("Hy3; ERNIE 4.5's mixtures", "hy3", "ernie-4.5-moe"),
    row("DeepSeek V2, V3; Kimi K2", "deepseek-v2", "deepseek-v2-groups", "deepseek-v3"),
    row("Kimi K2.5, K2.6: text part", "kimi-k2.5"),
    row("DeepSeek V3.2; GLM-5", "deepseek-v3.2", "glm-5"),
    row("GLM-4.7-Flash; MiniCPM3", "glm-4.7-flash", "minicpm3"),
    row("MiMo-7B, MiMo-V2-Flash", "mimo", "mimo-v2-flash"),
    row("Llama 4: text part", "llama-4", "llama-4-top2", gguf="yes"),
    row("Mistral 4: text part; Large 3", "mistral-4", gguf="yes (Large 3: GGUF only)"),
    row("Qwen3-Next; Qwen3.5, 3.6; LFM2", "qwen3-next", "qwen3.5", "qwen3.5-moe", "lfm2"),
    row("Granite 4 H; Nemotron-H and 3", "granite-4-h", "granite-4-micro", "nemotron-h", "nemotron-3", "nemotron-3-super",
        gguf="yes"),
    row("Falcon-H1; Mamba 2", "falcon-h1", "falcon-h1-normed", "mamba-2", gguf="yes"),
    row("OPT; GPT-J", "gpt-j", older="folder"),
    row("encoders: BERT, RoBERTa, XLM-R", older="both"),
    row("  nomic-embed-text, EmbeddingGemma", older="both"),
    row("  ModernBERT", older="both"),
    row("  GTE, MPNet", older="folder"),
    # llama.cpp's converter leaves BERT's pooler out
    row("their cross-encoders (one label)", older="both", gguf="all but BERT's"),
    row("Qwen3-Reranker", older="both"),
]


def gguf_of(r, families):
    """What the column of GGUF files says; a ValueError names a row that cannot be said in a word."""
    has = {families[name]["gguf"] is not None for name in r["families"]}
    has |= {r["older"] == "both"} if r["older"] else set()
    if r["gguf"]:
        return r["gguf"]
    if len(has) != 1:
        raise ValueError(f"bench/models/readme.py: families of the row '{r['title']}' differ in GGUF files: say in gguf= what holds")
    return "yes" if has == {True} else "no"


def lines(families):
    """The table, for the families of families.py by name."""
    for r in ROWS:
        first, *more = r["title"].split("\n")
        yield f"    {first:<36}{'yes':<8}{gguf_of(r, families)}\n"
        yield from (f"      {line}\n" for line in more)


def faults(families):
    """Sentences about families that are in no row, or rows of families that do not exist."""
    shown = [name for r in ROWS for name in r["families"]]
    for name in sorted(set(families) - set(shown)):
        yield f"family '{name}' of bench/models/families.py is in no row of bench/models/readme.py"
    for name in sorted(set(shown) - set(families)):
        yield f"bench/models/readme.py names '{name}', which is no family of bench/models/families.py"


def split(text):
    """README before the table, the table, and the rest."""
    begin = text.index(FIRST) + len(FIRST)
    end = text.index(LAST, begin)
    return text[:begin], text[begin:end], text[end:]


def check(families, path=Path(__file__).resolve().parents[2] / "README", update=False):
    """Sentences about what is wrong with README's table; writes it anew with `update`."""
    wrong = list(faults(families))
    if wrong:
        return wrong
    before, table, rest = split(path.read_text(encoding="utf-8"))
    made = "".join(lines(families))
    if table != made and update:
        path.write_text(before + made + rest, encoding="utf-8")
    if table != made and not update:
        wrong.append("README's table of models is not that of bench/models/readme.py: run bench/models/table.py --readme --update")
    return wrong
