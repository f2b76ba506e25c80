#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the config.json that transformers writes of each family that is served, one a line.

Every key that a class has is there, with its default; only the number of layers is smaller. The
lines of saved.jsonl are from this program with transformers 4.46.3, 4.57.1 and 5.24.0:

    python3 t/data/configs/make.py >>t/data/configs/saved.jsonl
"""
import json

from transformers import CONFIG_MAPPING

FAMILIES = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "mixtral": "MixtralForCausalLM",
    "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
    "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration", "phi3": "Phi3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM", "opt": "OPTForCausalLM", "gpt_neox": "GPTNeoXForCausalLM",
    "smollm3": "SmolLM3ForCausalLM", "gpt_oss": "GptOssForCausalLM", "bert": "BertModel",
    "roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel",
}
for kind, name in FAMILIES.items():
    if kind not in CONFIG_MAPPING:
        continue
    config = CONFIG_MAPPING[kind](**({} if kind == "gemma3" else {"num_hidden_layers": 4}))
    config.architectures = [name]
    print(json.dumps(json.loads(config.to_json_string(use_diff=False)), sort_keys=True,
                     separators=(",", ":")))
