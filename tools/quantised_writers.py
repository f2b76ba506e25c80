#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folders of t/data/quantised/folders whose matrix "m" (32 x 64) other people's
packages quantised, packed and unpacked ("expected" is what they unpack), see
quantised_folders.py for the others; and t/data/models/llama-mixed, a whole model whose
matrices are stored in three ways, with the logits of transformers on what they unpack.

    pip install torch safetensors compressed-tensors bitsandbytes auto-round nvidia-modelopt
    tools/quantised_writers.py [t/data]
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

ROWS, COLUMNS, GROUP = 32, 64, 32
GROUPS = COLUMNS // GROUP


class Writer:
    def __init__(self, out):
        self.out = out
        self.generator = torch.Generator().manual_seed(7)

    def weight(self):
        return torch.randn(ROWS, COLUMNS, generator=self.generator) * 0.1

    def write(self, name, config, tensors, expected, beside=None):
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        config = {} if config is None else {"quantization_config": config}
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        if beside is not None:
            (folder / "hf_quant_config.json").write_text(json.dumps(beside, indent=1) + "\n")
        tensors = {"m." + n: t.contiguous() for n, t in tensors.items()}
        tensors["plain.weight"] = torch.ones(2, 8, dtype=torch.float16)
        tensors["expected"] = expected.to(torch.float32).contiguous()
        save_file(tensors, folder / "model.safetensors")


# ---- compressed-tensors ---------------------------------------------------------------


def compressed_matrix(weight, fmt, weights):
    """A matrix as compressed-tensors stores it, and what it reads from that."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    args = QuantizationArgs(**weights)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=fmt)
    rows, columns = weight.shape
    parts = weight.reshape(rows, -1, args.group_size or columns)
    if args.strategy == "tensor":
        parts = weight.reshape(1, 1, -1)
    low, high = parts.amin(-1), parts.amax(-1)
    factor = generate_gparam(weight.amin(), weight.amax()) if args.strategy == "tensor_group" else None
    scale, zero = calculate_qparams(low, high, args, global_scale=factor)
    state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
    if factor is not None:
        state["weight_global_scale"] = factor
    stored = BaseCompressor.get_value_from_registry(fmt).compress(state, scheme)
    if factor is not None:  # its decompress would round to bf16
        codes = unpack_fp4_from_uint8(stored["weight_packed"], rows, columns, torch.float32)
        return stored, dequantize(codes, stored["weight_scale"].float(), None, args, dtype=torch.float32,
                                  global_scale=stored["weight_global_scale"])
    read = BaseCompressor.get_value_from_registry(fmt).decompress(dict(stored), scheme)["weight"]
    return stored, read


def compressed_config(fmt, groups):
    return {"quant_method": "compressed-tensors", "format": fmt, "config_groups": groups, "ignore": ["lm_head"],
            "kv_cache_scheme": None, "quantization_status": "compressed"}


NVFP4 = {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16,
         "scale_dtype": "torch.float8_e4m3fn"}


def ints(bits, symmetric, group):
    return {"num_bits": bits, "type": "int", "symmetric": symmetric, "group_size": group,
            "strategy": "group" if group else "channel"}


def compressed(w):
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32

    def one(name, fmt, weights):
        stored, read = compressed_matrix(w.weight(), fmt, weights)
        w.write(name, compressed_config(fmt, {"group_0": {"targets": ["Linear"], "weights": weights}}), stored, read)

    one("packed8", "pack-quantized", ints(8, True, GROUP))
    one("packed8-zeros", "pack-quantized", ints(8, False, None))
    one("packed3-zeros", "pack-quantized", ints(3, False, GROUP))
    one("packed4-channel", "pack-quantized", ints(4, False, None))
    one("nvfp4", "nvfp4-pack-quantized", NVFP4)
    one("mxfp4", "mxfp4-pack-quantized",
        {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"})
    one("mxfp8", "mxfp8-quantized",
        {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "group", "group_size": 32,
         "scale_dtype": "torch.uint8"})
    # Groups of columns in another order, as versions before 0.15 stored with actorder.
    weights = ints(4, False, GROUP) | {"actorder": "group"}
    stored, read = compressed_matrix(w.weight(), "pack-quantized", ints(4, False, GROUP))
    order = torch.randperm(COLUMNS, generator=w.generator)
    codes = unpack_from_int32(stored["weight_packed"], 4, torch.Size([ROWS, COLUMNS]))[:, order]
    stored |= {"weight_packed": pack_to_int32(codes, 4), "weight_g_idx": (order // GROUP).to(torch.int32)}
    w.write("packed-order", compressed_config("pack-quantized", {
        "group_0": {"targets": ["Linear"], "weights": weights}}), stored, read[:, order])
    # Two ways in a folder: "m" has the second.
    first, second = ints(8, True, GROUP), ints(4, True, GROUP)
    stored, read = compressed_matrix(w.weight(), "pack-quantized", second)
    groups = {
        "group_0": {"targets": ["re:.*attn.*"], "weights": NVFP4, "format": "nvfp4-pack-quantized"},
        "group_1": {"targets": ["re:.*down_proj"], "weights": first, "format": "pack-quantized"},
        "group_2": {"targets": ["m"], "weights": second, "format": "pack-quantized"},
    }
    w.write("packed-mixed", compressed_config("mixed-precision", groups), stored, read)


# ---- bitsandbytes ---------------------------------------------------------------------


def bitsandbytes(w):
    import bitsandbytes.functional as f

    for name, kind, double in (("nf4", "nf4", False), ("nf4-double", "nf4", True), ("fp4", "fp4", False)):
        codes, state = f.quantize_4bit(w.weight(), blocksize=64, quant_type=kind, compress_statistics=double)
        tensors = {"weight": codes} | {"weight." + n: t for n, t in state.as_dict(packed=True).items()}
        config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False,
                  "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": double,
                  "bnb_4bit_quant_storage": "uint8", "bnb_4bit_compute_dtype": "bfloat16"}
        w.write("bnb-" + name, config, tensors, f.dequantize_4bit(codes, state))
    codes, largest, _ = f.int8_vectorwise_quant(w.weight().half())
    config = {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": True,
              "llm_int8_threshold": 6.0}
    # It multiplies in another order, which rounds once more.
    expected = codes.float() * (largest / 127).reshape(-1, 1)
    torch.testing.assert_close(expected, f.int8_vectorwise_dequant(codes, largest), rtol=3e-7, atol=0)
    w.write("bnb-int8", config, {"weight": codes, "SCB": largest, "weight_format": torch.tensor(0, dtype=torch.uint8)},
            expected)


# ---- GPTQ and auto-round ---------------------------------------------------------------


def grid(weight, bits, symmetric):
    """Scales in f16 and zeros of each group."""
    parts = weight.reshape(ROWS, GROUPS, GROUP)
    top = 2**bits - 1
    if symmetric:
        scales = (parts.abs().amax(-1) * 2 / top).half()
        return scales, torch.full((ROWS, GROUPS), 2**(bits - 1))
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    scales = ((high - low) / top).half()
    return scales, torch.clamp(torch.round(-low / scales.float()), 1, top).to(torch.int64)


def auto_round(w):
    from auto_round.export.export_to_awq.utils import WQLinear_GEMM, dequantize_gemm
    from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp

    def linear(weight):
        out = torch.nn.Linear(COLUMNS, ROWS, bias=False)
        out.weight.data = weight.clone()
        return out

    def read(packed):
        """What its own unpacking gives, with its f16 scales in f32: the product with each unit vector."""
        packed.scales = packed.scales.float()
        return packed(torch.eye(COLUMNS, dtype=torch.float32)).reshape(COLUMNS, ROWS).T

    def write(name, module, config, bits, symmetric):
        weight = w.weight()
        scales, zeros = grid(weight, bits, symmetric)
        packed = module.QuantLinear(bits, GROUP, COLUMNS, ROWS, False)
        packed.device = "cpu"  # its 3 bits read that
        packed.pack(linear(weight), scales.float(), zeros.float(), None, "cpu")
        tensors = {n: t for n, t in packed.state_dict().items() if t is not None}
        w.write(name, config | {"bits": bits, "group_size": GROUP, "sym": symmetric}, tensors, read(packed))

    rounds = {"quant_method": "auto-round", "data_type": "int", "autoround_version": "0.16.1"}
    for bits in (2, 3, 5):
        write(f"round{bits}", qlinear_torch, rounds | {"packing_format": "auto_round"}, bits, bits == 3)
    write("round4-gptq", qlinear_torch_zp, rounds | {"packing_format": "auto_round:auto_gptq",
                                                     "extra_config": {"model.layers.0.q": {"bits": 8}}}, 4, False)
    gptq = {"quant_method": "gptq", "checkpoint_format": "gptq", "desc_act": False}
    for bits in (2, 3, 8):
        write(f"gptq{bits}", qlinear_torch_zp, gptq, bits, bits == 8)
    write("gptq8-zeros", qlinear_torch_zp, gptq | {"dynamic": {"-:.*lm_head": {}, "+:.*down": {"bits": 2}}}, 8, False)

    weight = w.weight()
    scales, zeros = grid(weight, 4, False)
    packed = WQLinear_GEMM.from_linear(linear(weight), 4, GROUP, scales=scales.T.float(), zeros=zeros.T.float())
    tensors = {n: t for n, t in packed.state_dict().items() if t is not None}
    w.write("round4-awq", rounds | {"packing_format": "auto_round:auto_awq", "bits": 4, "group_size": GROUP,
                                    "sym": False}, tensors,
            dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.float(), 4, GROUP).T)


# ---- modelopt -------------------------------------------------------------------------


def modelopt(w):
    from modelopt.torch.quantization.qtensor import NVFP4QTensor

    packed, scale, factor = NVFP4QTensor.quantize(w.weight(), 16)
    expected = packed.dequantize(torch.float32, scale=scale, double_scale=factor, block_sizes={-1: 16})
    tensors = {"weight": packed._quantized_data, "weight_scale": scale, "weight_scale_2": factor,
               "input_scale": torch.tensor(0.5)}
    w.write("modelopt-nvfp4", None, tensors, expected, {
        "producer": {"name": "modelopt", "version": "0.47.0"},
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
                         "exclude_modules": ["lm_head"]}})
    weight = w.weight()
    scale = weight.abs().amax() / 448
    codes = (weight / scale).to(torch.float8_e4m3fn)
    w.write("modelopt-fp8", {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
            {"weight": codes, "weight_scale": scale, "input_scale": torch.tensor(0.1), "k_scale": torch.tensor(0.3),
             "v_scale": torch.tensor(0.2)}, codes.float() * scale)
    scale = torch.rand(1, 1, 1, 1, generator=w.generator) * 0.01
    layers = {"m": {"quant_algo": "FP8_PB_WO"}, "n": {"quant_algo": "NVFP4", "group_size": 16}}
    w.write("modelopt-mixed", {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers},
            {"weight": codes, "weight_scale": scale}, codes.float() * scale.reshape(()))


# ---- a model --------------------------------------------------------------------------


def model(source, out):
    import make_reference_models as reference
    import transformers
    from safetensors.torch import load_file

    groups = {
        "group_0": {"targets": ["re:.*self_attn.*"], "weights": NVFP4, "format": "nvfp4-pack-quantized"},
        "group_1": {"targets": ["re:.*(gate|up)_proj$"], "weights": ints(4, False, GROUP), "format": "pack-quantized"},
        "group_2": {"targets": ["re:.*down_proj$"], "weights": ints(8, True, None), "format": "pack-quantized"},
    }
    config = json.loads((source / "config.json").read_text())
    state, stored, plain = load_file(source / "model.safetensors"), {}, {}
    for name, tensor in state.items():
        plain[name] = stored[name] = tensor
        if name.endswith("_proj.weight"):
            del stored[name]
            group = groups["group_0" if "attn" in name else "group_2" if "down" in name else "group_1"]
            tensors, plain[name] = compressed_matrix(tensor.float(), group["format"], group["weights"])
            stored |= {name.replace("weight", n): t.contiguous() for n, t in tensors.items()}
    out.mkdir(parents=True, exist_ok=True)
    save_file(stored, out / "model.safetensors", metadata={"format": "pt"})
    parsed = transformers.AutoConfig.from_pretrained(source)
    whole = transformers.AutoModelForCausalLM.from_config(parsed, dtype=torch.float32, attn_implementation="eager")
    whole.load_state_dict(plain)
    prompts, logits = reference.reference(whole.eval(), config["vocab_size"], 1)
    logits.numpy().astype("<f4").tofile(out / "reference_logits.bin")
    reference.write_json(out / "reference.json", {
        "made_by": "tools/quantised_writers.py", "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0], "vocab_size": config["vocab_size"], "prompts": prompts
    })
    config["quantization_config"] = compressed_config("mixed-precision", groups)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def main():
    data = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "t/data")
    writer = Writer(data / "quantised/folders")
    compressed(writer)
    bitsandbytes(writer)
    auto_round(writer)
    modelopt(writer)
    model(pathlib.Path("t/data/models/llama"), data / "models/llama-mixed")


main()
