/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Falcon-H1 (arXiv 2507.22448): attention and a state space of Mamba-2 read the same
 * input, and both are added to x; a gated MLP follows. Factors scale almost every
 * product: a row of the state space is multiplied by the factor of z, and the weights of
 * the convolution, which is linear, by what the factors of x, B and C differ from it; the
 * MLP's norm by the factor of its gate, which the factor of its inner columns undoes.
 * GGUF files have them in the matrices.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <math.h>

/* Reads n numbers, which are 1 where the key is missing or null. */
static int read_factors(const struct lls_json *json, const char *key, size_t n,
                        double *out, struct lls_error *err)
{
  const json_t *list = lls_json_get(json, key);
  bool missing = list == NULL || json_is_null(list);
  for (size_t i = 0; i < n; i++) {
    const json_t *number = json_is_array(list) ? json_array_get(list, i) : list;
    out[i] = missing ? 1 : json_number_value(number);
    if (!(out[i] > 0) || (n > 1 && !missing && json_array_size(list) != n))
      return lls_fail(err, -EINVAL, "%s: \"%s\" should be %zu numbers above 0",
                      json->file, key, n);
  }
  return 0;
}

/* In the order of the file's keys. */
struct factors {
  double embedding, head, mlp[2], key, attention_in, attention_out;
  double parts[5], space_in, space_out; /* z, x, B, C and the time steps */
};

static int read_all(const struct lls_json *json, struct factors *f, struct lls_error *err)
{
  const struct {
    const char *key;
    size_t n;
    double *to;
  } all[] = {{"embedding_multiplier", 1, &f->embedding},
             {"lm_head_multiplier", 1, &f->head},
             {"mlp_multipliers", 2, f->mlp},
             {"key_multiplier", 1, &f->key},
             {"attention_in_multiplier", 1, &f->attention_in},
             {"attention_out_multiplier", 1, &f->attention_out},
             {"ssm_multipliers", 5, f->parts},
             {"ssm_in_multiplier", 1, &f->space_in},
             {"ssm_out_multiplier", 1, &f->space_out}};
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof all / sizeof all[0]; i++)
    rc = read_factors(json, all[i].key, all[i].n, all[i].to, err);
  return rc;
}

static void set_factors(const struct factors *f, struct lls_model_config *out)
{
  double both = f->attention_in * f->attention_in * f->key;
  out->embedding_scale = (float)f->embedding;
  out->logit_scale = (float)f->head;
  out->attention_scale = (float)(both / sqrt(out->head_dim));
  out->factors = (struct lls_branch_factors){
      .attended = (float)(f->attention_in * f->attention_out),
      .rows = (float)(f->space_in * f->parts[0]),
      .steps = (float)(f->space_in * f->parts[4]),
      .folded = (float)f->space_out,
      .mlp_input = (float)f->mlp[0],
      .mlp_inner = (float)(f->mlp[1] / f->mlp[0]),
  };
  for (size_t i = 0; i < 3; i++)
    out->factors.conv[i] = (float)(f->parts[i + 1] / f->parts[0]);
}

/* With a bias a factor of the input is not one of the output. */
static int refuse_biases(const struct lls_json *json, const struct lls_model_config *c,
                         struct lls_error *err)
{
  bool projectors = false;
  int rc = lls_json_bool_or(json, "projectors_bias", false, &projectors, err);
  if (rc == 0 && (projectors || c->qkv_bias || c->mlp_bias || c->recurrent.product_bias))
    rc =
        lls_fail(err, -ENOTSUP,
                 "%s: biases of the products are not supported in Falcon-H1", json->file);
  return rc;
}

static int read_norm(const struct lls_json *json, struct lls_recurrent_config *r,
                     struct lls_error *err)
{
  bool normed = false, before = true;
  int rc = lls_json_bool_or(json, "mamba_rms_norm", false, &normed, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "mamba_norm_before_gate", true, &before, err);
  r->unnormed = !normed;
  r->norm_before_gate = before;
  return rc;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  /* The sizes of heads say the width of the state space, too. */
  static const char *const unused[] = {"mamba_d_ssm",       "num_logits_to_keep",
                                       "layers_block_type", "layer_types",
                                       "mamba_use_mlp",     NULL};
  struct factors f;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_config_mamba(json, &lls_mamba_keys, out, err);
  if (rc == 0)
    rc = read_norm(json, &out->recurrent, err);
  if (rc == 0)
    rc = read_all(json, &f, err);
  if (rc < 0)
    return rc;
  set_factors(&f, out);
  for (uint32_t i = 0; i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].mix = LLS_MIX_BESIDE;
  lls_config_pass_over(json, unused);
  return refuse_biases(json, out, err);
}

static const char *const names[] = {"FalconH1ForCausalLM", NULL};

const struct lls_architecture lls_falcon_h1 = {
    .title = "Falcon-H1",
    .names = names,
    .configure = configure,
    .tensors = {.prefixes = {"model.", ""},
                .embedding = "embed_tokens",
                .final_norm = "final_layernorm",
                .head = "lm_head",
                .layers = "layers.",
                .attention_norm = "input_layernorm",
                .mlp_norm = "pre_ff_layernorm",
                LLS_LLAMA_QKV,
                .output = "self_attn.o_proj",
                .gate = "feed_forward.gate_proj",
                .up = "feed_forward.up_proj",
                .down = "feed_forward.down_proj",
                LLS_MAMBA_TENSORS("mamba.")},
};
