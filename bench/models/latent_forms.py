# SPDX-License-Identifier: Apache-2.0
"""Whether a cut of a prompt shows where latent attention (MLA) has two forms: absorbed, in which queries attend to the
latents, and expanded, in which keys and values are made of them.

    latent_forms.py FOLDER [PROMPTS]

The folder is a tiny DeepSeek V3, such as t/data/models/deepseek-v3. transformers' class computes random prompts of 64
ids in f32, each row of them in the form that a rule by the rows of a step would choose: all rows of a long first chunk
are expanded, those of the rest are absorbed. Printed are how many last rows have the same bits as with the prompt in
one chunk, how far logits are off, and how many texts of 16 greedy ids are others."""
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from transformers.models.deepseek_v3 import modeling_deepseek_v3

LENGTH, ANSWER = 64, 16
expanded_rows = LENGTH  # rows before this one are expanded


def attend(self, hidden_states, position_embeddings, attention_mask, **_):
    """Both forms of all rows, of which each row has one."""
    batch, rows = hidden_states.shape[:2]
    nope, rope, value, rank = self.qk_nope_head_dim, self.qk_rope_head_dim, self.v_head_dim, self.kv_lora_rank
    q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(hidden_states)))
    q, turned_q = q.view(batch, rows, self.num_heads, nope + rope).transpose(1, 2).split([nope, rope], -1)
    latent, turned_k = self.kv_a_proj_with_mqa(hidden_states).split([rank, rope], -1)
    latent, turned_k = self.kv_a_layernorm(latent)[:, None], turned_k[:, None]
    turned_q, turned_k = modeling_deepseek_v3.apply_rotary_pos_emb_interleave(turned_q, turned_k, *position_embeddings)
    of_keys, of_values = self.kv_b_proj.weight.view(self.num_heads, nope + value, rank).split([nope, value], 1)

    def weights(scores):
        scores = scores + turned_q @ turned_k.transpose(2, 3)
        return torch.softmax(scores * self.scaling + attention_mask, -1)

    keys, values = latent @ of_keys.transpose(1, 2), latent @ of_values.transpose(1, 2)
    expanded = weights(q @ keys.transpose(2, 3)) @ values
    absorbed = weights((q @ of_keys) @ latent.transpose(2, 3)) @ latent @ of_values.transpose(1, 2)
    first = (torch.arange(rows) < expanded_rows)[:, None]
    return self.o_proj(torch.where(first, expanded, absorbed).transpose(1, 2).reshape(batch, rows, -1)), None


@torch.no_grad()
def run(model, ids, first):
    """The last row's logits, with the rows before `first` expanded."""
    global expanded_rows
    expanded_rows = first
    return model(ids, use_cache=False).logits[:, -1]


def text(model, ids, first):
    for _ in range(ANSWER):
        ids = torch.cat([ids, run(model, ids, first).argmax(-1, keepdim=True)], 1)
    return ids


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    modeling_deepseek_v3.DeepseekV3Attention.forward = attend
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager")
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    ids = torch.randint(3, model.config.vocab_size, (n, LENGTH), generator=torch.Generator().manual_seed(5))
    whole, texts = run(model, ids, LENGTH), text(model, ids, LENGTH)
    for first in (63, 48, 32, 0):
        rows = run(model, ids, first)
        same = (rows == whole).all(-1).sum().item()
        other = (text(model, ids, first) != texts).any(1).sum().item()
        print(f"{first:>2} of {LENGTH} rows expanded: {same} of {n} last rows have the same bits, off by "
              f"{(rows - whole).abs().max():.1e} at most; {other} of {n} texts are others", flush=True)


if __name__ == "__main__":
    main()
