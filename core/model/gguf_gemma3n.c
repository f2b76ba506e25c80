/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF files of Gemma 3n: names of tensors and keys, and the shares of gates that are
 * cut, which the files have as a number of standard deviations.
 */
#include <math.h>

#include "core/model/gguf_gemma4.h"

const struct lls_gguf_pair lls_gguf_gemma3n_tensors[] = {
    LLS_GGUF_LAYER_INPUTS,
    {"altup_projections", "altup_proj"},
    {"altup_unembed_projections", "altup_unembd_proj"},
    {"altup.router_norm", "altup_router_norm"},
    {"altup.modality_router", "altup_router"},
    {"altup.prediction_coefs", "altup_predict_coef"},
    {"altup.correction_coefs", "altup_correct_coef"},
    {"laurel.linear_left", "laurel_l"},
    {"laurel.linear_right", "laurel_r"},
    {"laurel.post_laurel_norm", "laurel_post_norm"},
    {NULL, NULL}};

const struct lls_gguf_pair lls_gguf_gemma3n_keys[] = {
    {"num_kv_shared_layers", "attention.shared_kv_layers"},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
    {"altup_active_idx", "altup.active_idx"},
    {"altup_num_inputs", "altup.num_inputs"},
    {"activation_sparsity_scale", "activation_sparsity_scale"},
    {NULL, NULL}};

/* Replaces standard deviations by the share of a normal distribution below them. */
static void describe_cuts(json_t *config)
{
  size_t i;
  const json_t *scale, *scales = json_object_get(config, "activation_sparsity_scale");
  json_t *shares = json_array();
  json_array_foreach((json_t *)scales, i, scale)
  {
    double share = 0.5 * erfc(-json_number_value(scale) * M_SQRT1_2);
    json_array_append_new(shares, json_real(share));
  }
  if (scales != NULL)
    json_object_set(config, "activation_sparsity_pattern", shares);
  json_decref(shares);
  json_object_del(config, "activation_sparsity_scale");
}

void lls_gguf_describe_gemma3n(const struct lls_gguf *g, json_t *config)
{
  const struct lls_gguf_tensor *inputs =
      lls_gguf_tensor(g, "per_layer_token_embd.weight");
  const struct lls_gguf_tensor *laurel = lls_gguf_tensor(g, "blk.0.laurel_l.weight");
  describe_cuts(config);
  json_object_del(config, "query_pre_attn_scalar");
  if (inputs != NULL)
    json_object_set_new(config, "vocab_size_per_layer_input",
                        json_integer((json_int_t)inputs->shape[0]));
  if (laurel != NULL)
    json_object_set_new(config, "laurel_rank",
                        json_integer((json_int_t)laurel->shape[0]));
}
