# SPDX-License-Identifier: Apache-2.0
"""What stands for the models and adapters of vLLM's tests.

model.py FROM TO: a copy of a GGUF file that samples as Qwen3's generation_config.json says.
adapter(): a small random LoRA adapter for a GGUF file of Llama's architecture.
"""
import json
import os
import sys

import gguf

RANK = 4


def copy(source, target):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            kind, inner = field.types[0], field.types[-1]
            writer.add_key_value(key, field.contents(), kind, inner if kind == gguf.GGUFValueType.ARRAY else None)
    writer.add_sampling_temp(0.6)
    writer.add_sampling_top_k(20)
    writer.add_sampling_top_p(0.95)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def adapter(model, folder):
    """Writes the adapter as PEFT saves it, unless `folder` has it, and gives the folder."""
    import numpy as np
    from safetensors.numpy import save_file
    if os.path.exists(f"{folder}/adapter_model.safetensors"):
        return folder
    fields = gguf.GGUFReader(model).fields
    read = lambda name: fields[f"{fields['general.architecture'].contents()}.{name}"].contents()
    hidden, rows = read("embedding_length"), read("attention.head_count") * read("rope.dimension_count")
    random, tensors = np.random.default_rng(1), {}
    for layer in range(read("block_count")):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{name}.lora_A.weight"] = random.normal(0, .02, (RANK, hidden)).astype("float32")
        tensors[f"{name}.lora_B.weight"] = random.normal(0, .02, (rows, RANK)).astype("float32")
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/adapter_config.json", "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "target_modules": ["q_proj"]}, file)
    save_file(tensors, f"{folder}/adapter_model.safetensors")
    return folder


if __name__ == "__main__":
    copy(*sys.argv[1:])
