# SPDX-License-Identifier: Apache-2.0
"""The logits of a model in f64, which judge both a server's and torch's in f32: where a server is as near to them as
torch is, what is left of its difference to torch is rounding."""
import contextlib

import torch


@contextlib.contextmanager
def wide():
    """Makes float32 mean float64: classes of transformers ask for f32 in the middle of a norm, a softmax or a state."""
    kept = torch.float32, torch.Tensor.float, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.Tensor.float = kept[:2]
        torch.set_default_dtype(kept[2])


@torch.no_grad()
def logits(kind, folder, prompts, text=False):
    """All rows of the prompts, as reference_logits.bin has them; text: by the model's language_model."""
    with wide():
        model = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                     experts_implementation="eager").eval()
        model = model.language_model if text else model
        rows = [model(torch.tensor([p["ids"]]), use_cache=False).logits[0] for p in prompts]
    assert all(r.dtype == torch.float64 for r in rows)
    return torch.cat(rows).flatten()
