#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes t/data/quantised/folders: a folder for each way in which Hugging Face's folders
have quantised matrices, with one matrix "m" and the numbers that it stands for ("expected");
and t/data/models/llama-gptq, a whole model with its logits.

    pip install torch safetensors transformers compressed-tensors
    tools/quantised_folders.py [t/data]

compressed-tensors packs its own; GPTQ's and AWQ's words are put together here, as AutoGPTQ
and AutoAWQ (gemm) do it.
"""
import json
import pathlib
import sys

import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from safetensors.torch import save_file

ROWS, COLUMNS, GROUP = 16, 64, 32
GROUPS = COLUMNS // GROUP
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def words(codes, order=range(8)):
    """Eight codes along the last dimension in a word, the first in the lowest bits."""
    eights = codes.to(torch.int64).reshape(*codes.shape[:-1], -1, 8)[..., list(order)]
    word = (eights << (4 * torch.arange(8))).sum(-1)
    return torch.where(word >= 2**31, word - 2**32, word).to(torch.int32)


class Maker:
    def __init__(self, out):
        self.out = out
        self.generator = torch.Generator().manual_seed(1)

    def codes(self, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.generator)

    def scales(self, *shape):
        return torch.rand(shape, generator=self.generator) * 0.02 + 0.001

    def write(self, name, config, tensors, expected):
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")
        tensors = {"m." + n: t.contiguous() for n, t in tensors.items()}
        tensors["plain.weight"] = torch.ones(2, 8, dtype=torch.float16)
        tensors["expected"] = expected.to(torch.float32).contiguous()
        save_file(tensors, folder / "model.safetensors")

    def gptq(self, name, zero, order, version="gptq"):
        codes, scales = self.codes(0, 16, ROWS, COLUMNS), self.scales(ROWS, GROUPS).half()
        zeros = torch.full((ROWS, GROUPS), 8) if zero else self.codes(1, 16, ROWS, GROUPS)
        group = torch.arange(COLUMNS) // GROUP
        if order:
            group = group[torch.randperm(COLUMNS, generator=self.generator)]
        tensors = {
            "qweight": words(codes).T, "scales": scales.T, "g_idx": group.to(torch.int32),
            "qzeros": words(zeros.T - int(version == "gptq"))
        }
        config = {
            "quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": order, "sym": zero,
            "checkpoint_format": version
        }
        self.write(name, config, tensors, scales.float()[:, group] * (codes - zeros[:, group]))

    def awq(self):
        codes, scales = self.codes(0, 16, ROWS, COLUMNS), self.scales(ROWS, GROUPS).half()
        zeros = self.codes(0, 16, ROWS, GROUPS)
        tensors = {
            "qweight": words(codes.T, AWQ_ORDER), "scales": scales.T, "qzeros": words(zeros.T, AWQ_ORDER)
        }
        config = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}
        group = torch.arange(COLUMNS) // GROUP
        self.write("awq", config, tensors, scales.float()[:, group] * (codes - zeros[:, group]))

    def compressed(self, name, fmt, weights, tensors, expected):
        config = {
            "quant_method": "compressed-tensors", "format": fmt,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}
        }
        self.write(name, config, tensors, expected)

    def packed(self, name, symmetric):
        codes = self.codes(-8, 8, ROWS, COLUMNS).to(torch.int8)
        zeros = torch.zeros(ROWS, GROUPS, dtype=torch.int8) if symmetric else self.codes(-8, 8, ROWS, GROUPS).to(
            torch.int8)
        scales = self.scales(ROWS, GROUPS).bfloat16()
        tensors = {"weight_packed": pack_to_int32(codes, 4), "weight_scale": scales,
                   "weight_shape": torch.tensor([ROWS, COLUMNS])}
        if not symmetric:
            tensors["weight_zero_point"] = pack_to_int32(zeros, 4, packed_dim=0)
        group = torch.arange(COLUMNS) // GROUP
        weights = {"num_bits": 4, "type": "int", "symmetric": symmetric, "strategy": "group", "group_size": GROUP}
        self.compressed(name, "pack-quantized", weights, tensors,
                        scales.float()[:, group] * (codes.float() - zeros.float()[:, group]))

    def bytes(self):
        codes, scales = self.codes(-128, 128, ROWS, COLUMNS).to(torch.int8), self.scales(ROWS, 1)
        weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "group_size": None}
        self.compressed("int8", "int-quantized", weights, {"weight": codes, "weight_scale": scales},
                        scales * codes.float())

    def floats(self):
        def numbers():
            return (torch.randn(ROWS, COLUMNS, generator=self.generator) * 60).to(torch.float8_e4m3fn)
        weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel", "group_size": None}
        codes, scales = numbers(), self.scales(ROWS, 1).bfloat16()
        self.compressed("fp8-channel", "float-quantized", weights, {"weight": codes, "weight_scale": scales},
                        scales.float() * codes.float())
        codes, scales = numbers(), self.scales(1)
        self.write("fp8-tensor", {"quant_method": "fp8"}, {"weight": codes, "weight_scale": scales},
                   scales * codes.float())
        codes, scales = numbers(), self.scales(2, GROUPS)
        config = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [12, GROUP]}
        self.write("fp8-block", config, {"weight": codes, "weight_scale_inv": scales},
                   scales[torch.arange(ROWS) // 12][:, torch.arange(COLUMNS) // GROUP] * codes.float())

    def one_scale(self):
        """Of a whole matrix: transformers' FP8 without blocks, and compressed-tensors' of weights alone."""
        def numbers():
            return (torch.randn(ROWS, COLUMNS, generator=self.generator) * 60).to(torch.float8_e4m3fn)
        codes, scale = numbers(), self.scales(1)[0]
        config = {"quant_method": "fp8", "weight_block_size": None}
        self.write("fp8-inverse", config, {"weight": codes, "weight_scale_inv": scale}, scale * codes.float())
        codes, scale = numbers(), self.scales(1).bfloat16()
        weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "group_size": None}
        self.compressed("fp8-naive", "naive-quantized", weights, {"weight": codes, "weight_scale": scale},
                        scale.float() * codes.float())


def quantised(maker, weight, order):
    """A matrix as GPTQ's tensors, and what they stand for."""
    rows, columns = weight.shape
    group = torch.arange(columns) // GROUP
    if order:
        group = group[torch.randperm(columns, generator=maker.generator)]
    low = torch.stack([weight[:, group == g].amin(1) for g in range(columns // GROUP)], 1)
    high = torch.stack([weight[:, group == g].amax(1) for g in range(columns // GROUP)], 1)
    scales = ((high - low) / 15).half()
    zeros = torch.clamp(torch.round(-low / scales.float()), 1, 15).to(torch.int64)
    codes = torch.clamp(torch.round(weight / scales.float()[:, group]) + zeros[:, group], 0, 15).to(torch.int64)
    tensors = {"qweight": words(codes).T, "scales": scales.T, "qzeros": words(zeros.T - 1),
               "g_idx": group.to(torch.int32)}
    return tensors, scales.float()[:, group] * (codes - zeros[:, group])


def model(maker, source, out):
    """The model of a folder in GPTQ, down projections with desc_act, and its logits."""
    import make_reference_models as reference
    import transformers
    from safetensors.torch import load_file

    config = json.loads((source / "config.json").read_text())
    state, stored, plain = load_file(source / "model.safetensors"), {}, {}
    for name, tensor in state.items():
        plain[name] = stored[name] = tensor
        if name.endswith("_proj.weight"):
            del stored[name]
            tensors, plain[name] = quantised(maker, tensor.float(), "down" in name)
            stored |= {name.replace("weight", n): t.contiguous() for n, t in tensors.items()}
    out.mkdir(parents=True, exist_ok=True)
    save_file(stored, out / "model.safetensors", metadata={"format": "pt"})
    parsed = transformers.AutoConfig.from_pretrained(source)
    whole = transformers.AutoModelForCausalLM.from_config(parsed, dtype=torch.float32, attn_implementation="eager")
    whole.load_state_dict(plain)
    whole.eval()
    prompts, logits = reference.reference(whole, config["vocab_size"], 1)
    logits.numpy().astype("<f4").tofile(out / "reference_logits.bin")
    reference.write_json(out / "reference.json", {
        "made_by": "tools/quantised_folders.py", "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0], "vocab_size": config["vocab_size"], "prompts": prompts
    })
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True,
                                     "sym": False}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def main():
    data = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "t/data")
    maker = Maker(data / "quantised/folders")
    maker.gptq("gptq", zero=True, order=False)
    maker.gptq("gptq-zeros", zero=False, order=False, version="gptq_v2")
    maker.gptq("gptq-order", zero=False, order=True)
    maker.awq()
    maker.packed("packed", symmetric=True)
    maker.packed("packed-zeros", symmetric=False)
    maker.bytes()
    maker.floats()
    model(maker, data / "models/llama", data / "models/llama-gptq")
    maker.one_scale()


main()
