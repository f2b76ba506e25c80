/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpt-oss (arXiv 2508.10925): mixtures of experts in four-bit blocks (MXFP4), or in the
 * numbers that training tools write, whose gates are clamped; every other layer slides;
 * each head has an attention sink, which absorbs attention that would go to irrelevant
 * tokens; biases everywhere; YaRN.
 */
#include <errno.h>

#include "core/model/architecture.h"

#define BLOCK 32  /* elements that share a scale */
#define CLAMP 7.0 /* the constant in LLS_ACT_CLAMPED_SWIGLU */

/* If the file does not list the layers, every other one slides, beginning with the
 * first. */
static int configure_layers(const struct lls_json *json, struct lls_model_config *out,
                            struct lls_error *err)
{
  uint32_t window = 128;
  bool found = false;
  int rc = lls_json_size_or(json, "sliding_window", window, &window, err);
  if (rc == 0)
    rc = lls_config_layer_types(json, out, window, &found, err);
  for (uint32_t i = 0; rc == 0 && i < out->layers && i < LLS_MAX_LAYERS; i++) {
    if (!found)
      out->layer[i].window = i % 2 == 0 ? window : 0;
    out->layer[i].mixture = true;
  }
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  double clamp = CLAMP;
  struct lls_mixture_config *m = &out->mixture;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "attention_bias", true, &out->qkv_bias, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_local_experts", 32, &m->experts, err);
  if (rc == 0)
    rc = lls_json_size_or(json, "num_experts_per_tok", 4, &m->active, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "swiglu_limit", clamp, &clamp, err);
  if (rc == 0 && clamp != CLAMP)
    rc = lls_fail(err, -ENOTSUP, "%s: \"swiglu_limit\" is %g; %g is supported",
                  json->file, clamp, CLAMP);
  bool blocks = lls_json_get(json, "quantization_config") != NULL;
  if (rc == 0 && blocks && (out->hidden % BLOCK != 0 || out->ffn % BLOCK != 0))
    rc = lls_fail(err, -EINVAL,
                  "%s: a hidden size of %u and a feed-forward size of %u are no whole "
                  "blocks of %d",
                  json->file, out->hidden, out->ffn, BLOCK);
  out->output_bias = out->qkv_bias;
  out->activation = LLS_ACT_CLAMPED_SWIGLU;
  out->attention_sinks = true;
  m->ffn = out->ffn;
  m->normalise = m->biases = true;
  return rc < 0 ? rc : configure_layers(json, out, err);
}

static const char *const names[] = {"GptOssForCausalLM", NULL};

const struct lls_architecture lls_gpt_oss = {
    .title = "gpt-oss",
    .names = names,
    .configure = configure,
    .mxfp4 = true,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_NORMS,
            LLS_LLAMA_QKV,
            .sinks = "self_attn.sinks",
            .router = "mlp.router",
            .experts = "mlp.experts.",
            .expert_blocks_up = "gate_up_proj",
            .expert_stacked_up = "gate_up_proj",
            .experts_turned = true,
            .experts_alternate = true,
            .expert_gate = "gate_proj",
            .expert_up = "up_proj",
            .expert_down = "down_proj",
        },
};
