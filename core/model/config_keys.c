/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that change nothing, and the check of all other keys; see config_keys.h. */
#include "core/model/config_keys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/architecture.h"
#include "core/model/gguf.h"

enum rule {
  ANY,    /* every value is accepted */
  ON,     /* only true is */
  NUMBER, /* only this number is */
};

struct key_rule {
  const char *name;
  enum rule rule;
  double number;
};

/* Keys of config.json. All keys that transformers writes for a supported family are
 * here, or are read elsewhere. */
static const struct key_rule top[] = {
    /* files and classes */
    {"architectures", ANY, 0},
    {"model_type", ANY, 0},
    {"auto_map", ANY, 0},
    {"dtype", ANY, 0},
    {"torch_dtype", ANY, 0},
    {"id2label", ANY, 0},
    {"label2id", ANY, 0},
    {"num_labels", ANY, 0},
    {"problem_type", ANY, 0},
    {"finetuning_task", ANY, 0},
    {"task_specific_params", ANY, 0},
    {"prefix", ANY, 0},
    {"language", ANY, 0},
    {"sentence_transformers", ANY, 0},
    {"is_matryoshka", ANY, 0},
    {"matryoshka_dimensions", ANY, 0},
    {"is_llama_config", ANY, 0},
    /* for other programs */
    {"use_cache", ANY, 0},
    {"cache_implementation", ANY, 0},
    {"attn_implementation", ANY, 0},
    {"use_flash_attention", ANY, 0},
    {"use_flash_attn", ANY, 0},
    {"flash_attn", ANY, 0},
    {"use_sdpa", ANY, 0},
    {"use_bfloat16", ANY, 0},
    {"torchscript", ANY, 0},
    {"return_dict", ANY, 0},
    {"output_attentions", ANY, 0},
    {"output_hidden_states", ANY, 0},
    {"output_router_logits", ANY, 0},
    {"output_scores", ANY, 0},
    {"output_past", ANY, 0},
    {"chunk_size_feed_forward", ANY, 0},
    {"gradient_checkpointing", ANY, 0},
    {"pretraining_tp", ANY, 0},
    {"is_decoder", ANY, 0}, /* read for encoders */
    {"use_reentrant", ANY, 0},
    {"trust_remote_code", ANY, 0},
    {"device_map", ANY, 0},
    {"padding_side", ANY, 0},
    {"truncation_side", ANY, 0},
    {"max_new_tokens", ANY, 0},
    {"max_window_layers", ANY, 0}, /* chooses the layers that have a window, if any has */
    {"original_max_position_embeddings", ANY, 0},
    {"initial_context_length", ANY, 0},
    {"max_sequence_length", ANY, 0},
    {"model_max_length", ANY, 0},
    {"seq_length", ANY, 0},
    {"max_length", ANY, 0},
    {"min_length", ANY, 0},
    /* training */
    {"initializer_range", ANY, 0},
    {"initializer_factor", ANY, 0},
    {"init_std", ANY, 0},
    {"layerdrop", ANY, 0},
    {"router_jitter_noise", ANY, 0},
    {"router_aux_loss_coef", ANY, 0},
    /* sampling */
    {"do_sample", ANY, 0},
    {"temperature", ANY, 0},
    {"top_p", ANY, 0},
    {"top_k", ANY, 0},
    {"typical_p", ANY, 0},
    {"num_beams", ANY, 0},
    {"num_beam_groups", ANY, 0},
    {"diversity_penalty", ANY, 0},
    {"repetition_penalty", ANY, 0},
    {"length_penalty", ANY, 0},
    {"early_stopping", ANY, 0},
    {"no_repeat_ngram_size", ANY, 0},
    {"encoder_no_repeat_ngram_size", ANY, 0},
    {"bad_words_ids", ANY, 0},
    {"num_return_sequences", ANY, 0},
    {"return_dict_in_generate", ANY, 0},
    {"remove_invalid_values", ANY, 0},
    {"exponential_decay_length_penalty", ANY, 0},
    {"suppress_tokens", ANY, 0},
    {"begin_suppress_tokens", ANY, 0},
    {"renormalize_logits", ANY, 0},
    /* switches that have this value in every supported model */
    {"is_causal", ON, 0},
    {"causal", ON, 0},
    {"use_causal_mask", ON, 0},
    {"use_rope", ON, 0},
    {"use_rms_norm", ON, 0},
    {"use_rmsnorm", ON, 0},
    {"norm_topk_prob", ON, 0},
    {"tie_word_embeddings", ON, 0},
    {"attention_multiplier", NUMBER, 0},
    {"attention_chunk_size", NUMBER, 0},
    {"attn_logit_softcapping", NUMBER, 0},
    {"final_logit_softcapping", NUMBER, 0},
    {"embedding_multiplier", NUMBER, 1},
    {"residual_multiplier", NUMBER, 1},
    {"logits_scaling", NUMBER, 1},
    {"logit_scale", NUMBER, 1},
    {"scale_emb", NUMBER, 1},
    {"interpolate_factor", NUMBER, 1},
    {"full_attn_mod", NUMBER, 1},
    {"n_shared_experts", NUMBER, 0},
    {"num_shared_experts", NUMBER, 0},
    {"shared_expert_intermediate_size", NUMBER, 0},
    {"first_k_dense_replace", NUMBER, 0},
    {"moe_layer_freq", NUMBER, 1},
    {"n_group", NUMBER, 1},
    {"topk_group", NUMBER, 1},
    {"routed_scaling_factor", NUMBER, 1},
    {"num_nextn_predict_layers", NUMBER, 0},
    {"swiglu_alpha", NUMBER, 1.702},
};

/* Keys next to "text_config" of a model that also reads images. */
static const struct key_rule beside_text[] = {
    {"text_config", ANY, 0},
    {"vision_config", ANY, 0},
    {"mm_tokens_per_image", ANY, 0},
    {"eos_token_id", ANY, 0},
    {"bos_token_id", ANY, 0},
    {"multimodal_projector_bias", ANY, 0},
    {"projector_hidden_act", ANY, 0},
    {"spatial_merge_size", ANY, 0},
    {"vision_feature_layer", ANY, 0},
    {"tie_word_embeddings", ANY, 0}, /* the text part has it, or takes it from here */
};

static const struct key_rule encoders[] = {
    {"attention_bias", ANY, 0}, /* the tensors show it */
    {"mlp_bias", ANY, 0},
    {"tie_word_embeddings", ANY, 0},
    {"directionality", ANY, 0},
    {"pooler_type", ANY, 0}, /* about a pooler that transformers does not implement
                              * either */
    {"pooler_fc_size", ANY, 0},
    {"pooler_num_attention_heads", ANY, 0},
    {"pooler_num_fc_layers", ANY, 0},
    {"pooler_size_per_head", ANY, 0},
};

/* Keys of every rope scaling. The list that splits positions for images has no effect
 * on text. */
static const struct key_rule rope[] = {
    {"rope_type", ANY, 0},
    {"type", ANY, 0},
    {"rope_theta", ANY, 0},
    {"factor", ANY, 0},
    {"partial_rotary_factor", ANY, 0},
    {"low_freq_factor", ANY, 0},
    {"high_freq_factor", ANY, 0},
    {"original_max_position_embeddings", ANY, 0},
    {"max_position_embeddings", ANY, 0},
    {"beta_fast", ANY, 0},
    {"beta_slow", ANY, 0},
    {"truncate", ANY, 0},
    {"attention_factor", ANY, 0},
    {"short_factor", ANY, 0},
    {"long_factor", ANY, 0},
    {"full_attention", ANY, 0},
    {"sliding_attention", ANY, 0},
    {"mrope_section", ANY, 0},
    {"mrope_interleaved", ANY, 0},
    {"finetuned", ANY, 0},
    {"mscale", ANY, 0}, /* both are read of YaRN */
    {"mscale_all_dim", ANY, 0},
    {"short_mscale", NUMBER, 1},
    {"long_mscale", NUMBER, 1},
    {"llama_4_scaling_beta", ANY, 0}, /* see grows_unread */
    {"alpha", ANY, 0},                /* the last, which only "dynamic" has */
};

/* Keys about how the weights were quantised, which have no effect on reading them. */
static const struct key_rule quantisation[] = {
    {"quant_method", ANY, 0},
    {"bits", ANY, 0},
    {"group_size", ANY, 0},
    {"sym", ANY, 0},
    {"checkpoint_format", ANY, 0},
    {"zero_point", ANY, 0},
    {"fmt", ANY, 0},
    {"weight_block_size", ANY, 0},
    {"format", ANY, 0},
    {"config_groups", ANY, 0},
    {"desc_act", ANY, 0},
    {"static_groups", ANY, 0},
    {"true_sequential", ANY, 0},
    {"damp_percent", ANY, 0},
    {"damp_auto_increment", ANY, 0},
    {"cache_block_outputs", ANY, 0},
    {"quantizer", ANY, 0},
    {"meta", ANY, 0},
    {"pack_dtype", ANY, 0},
    {"backend", ANY, 0},
    {"do_fuse", ANY, 0},
    {"exllama_config", ANY, 0},
    {"use_exllama", ANY, 0},
    {"use_cuda_fp16", ANY, 0},
    {"disable_exllama", ANY, 0},
    {"max_input_length", ANY, 0},
    {"model_seqlen", ANY, 0},
    {"modules_in_block_to_quantize", ANY, 0},
    {"block_name_to_quantize", ANY, 0},
    {"module_name_preceding_first_block", ANY, 0},
    {"modules_to_not_convert", ANY, 0},
    {"ignored_layers", ANY, 0},
    {"ignore", ANY, 0},
    {"batch_size", ANY, 0},
    {"dataset", ANY, 0},
    {"pad_token_id", ANY, 0},
    {"activation_scheme", ANY, 0},
    {"activation_scale_ub", ANY, 0},
    {"kv_cache_scheme", ANY, 0},
    {"quantization_status", ANY, 0},
    {"global_compression_ratio", ANY, 0},
    {"sparsity_config", ANY, 0},
    {"iters", ANY, 0},
    {"nsamples", ANY, 0},
    {"seqlen", ANY, 0},
    {"dynamic", ANY, 0},
    {"lm_head", ANY, 0},
    {"packing_format", ANY, 0},
    {"extra_config", ANY, 0},
    {"data_type", ANY, 0},
    {"act_bits", ANY, 0},
    {"act_data_type", ANY, 0},
    {"act_group_size", ANY, 0},
    {"act_sym", ANY, 0},
    {"act_dynamic", ANY, 0},
    {"amp", ANY, 0},
    {"enable_quanted_input", ANY, 0},
    {"enable_minmax_tuning", ANY, 0},
    {"low_gpu_mem_usage", ANY, 0},
    {"gradient_accumulate_steps", ANY, 0},
    {"lr", ANY, 0},
    {"minmax_lr", ANY, 0},
    {"scale_dtype", ANY, 0},
    {"to_quant_block_names", ANY, 0},
    {"quant_algo", ANY, 0},
    {"kv_cache_quant_algo", ANY, 0},
    {"exclude_modules", ANY, 0},
    {"quantized_layers", ANY, 0},
    {"producer", ANY, 0},
    {"has_zero_point", ANY, 0},
    {"pre_quant_scale", ANY, 0}, /* the tensors are looked for */
    {"bnb_4bit_compute_dtype", ANY, 0},
    {"bnb_4bit_quant_storage", ANY, 0},
    {"bnb_4bit_quant_type", ANY, 0},
    {"bnb_4bit_use_double_quant", ANY, 0},
    {"llm_int8_enable_fp32_cpu_offload", ANY, 0},
    {"llm_int8_has_fp16_weight", ANY, 0},
    {"llm_int8_skip_modules", ANY, 0},
    {"llm_int8_threshold", ANY, 0},
    {"load_in_4bit", ANY, 0},
    {"load_in_8bit", ANY, 0},
    {"fp8_kv_cache", ANY, 0},
};

#define COUNT(rules) (sizeof(rules) / sizeof(rules)[0])

static const struct key_rule *find(const struct key_rule *rules, size_t n,
                                   const char *name)
{
  for (size_t i = 0; i < n; i++)
    if (strcmp(rules[i].name, name) == 0)
      return &rules[i];
  return NULL;
}

static bool is_kept(const struct key_rule *rule, const json_t *value)
{
  if (rule == NULL)
    return lls_json_is_off(value);
  if (json_is_null(value) || rule->rule == ANY)
    return true;
  if (rule->rule == ON)
    return json_is_true(value);
  return json_is_false(value) ||
         (json_is_number(value) && fabs(json_number_value(value) - rule->number) < 1e-6);
}

/* Returns true for names that show that the key is unrelated to the graph. */
static bool is_about_else(const char *name)
{
  static const char *const parts[] = {"dropout",   "pdrop",   "version",     "loss",
                                      "tokenizer", "unsloth", "dataset",     "license",
                                      "author",    "created", "transformers"};
  static const char *const ends[] = {"_token_id", "_token_ids", "_token_index",
                                     "_path",     "_name",      "_names"};
  size_t length = strlen(name);
  bool found = name[0] == '_';
  for (size_t i = 0; !found && i < COUNT(parts); i++)
    found = strstr(name, parts[i]) != NULL;
  for (size_t i = 0; !found && i < COUNT(ends); i++)
    found =
        length > strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0;
  return found;
}

static bool is_number(const json_t *value, double number)
{
  return json_is_number(value) && json_number_value(value) == number;
}

static bool has_window(const struct lls_model_config *c, double window)
{
  for (uint32_t i = 0; i < c->layers; i++)
    if (c->layer[i].window > 0 && c->layer[i].window == window)
      return true;
  return false;
}

/* Returns true for keys that repeat a property that the config has anyway. */
static bool is_said_already(const char *name, const json_t *value,
                            const struct lls_model_config *c)
{
  if (strcmp(name, "sliding_window") == 0)
    return json_is_number(value) && json_number_value(value) >= c->max_context;
  if (strcmp(name, "sliding_window_size") == 0)
    return has_window(c, json_number_value(value));
  if (strcmp(name, "activation") == 0)
    return c->gated && c->activation == LLS_ACT_SILU && json_is_string(value) &&
           strcmp(json_string_value(value), "swiglu") == 0;
  if (strcmp(name, "num_experts") == 0 || strcmp(name, "num_local_experts") == 0)
    return is_number(value, c->mixture.experts);
  if (strcmp(name, "moe_intermediate_size") == 0)
    return is_number(value, c->mixture.ffn);
  if (strcmp(name, "num_experts_per_tok") == 0 || strcmp(name, "experts_per_token") == 0)
    return is_number(value, c->mixture.active);
  if (strcmp(name, "layer_types") != 0 || !json_is_array(value))
    return false;
  for (size_t i = 0; i < json_array_size(value); i++) {
    const char *type = json_string_value(json_array_get(value, i));
    if (type == NULL || strcmp(type, "full_attention") != 0)
      return false;
  }
  return true;
}

static int refuse(const struct lls_json *json, const char *name, const json_t *value,
                  const char *of, struct lls_error *err)
{
  char *text =
      json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
  const char *own = lls_is_gguf(json->file) ? lls_gguf_key_of(name) : NULL;
  int rc =
      lls_fail(err, -ENOTSUP,
               "%s: \"%.64s\"%s%s%s is %.60s, which is not supported %s%s: the model "
               "may compute something else by it; if it does not, remove the key",
               json->file, name, own != NULL ? " (" : "", own != NULL ? own : "",
               own != NULL ? " in the metadata)" : "", text != NULL ? text : "set",
               of[0] == '"' ? "in " : "of ", of);
  free(text);
  return rc;
}

/* Returns true if queries should grow, which the architecture does not read. */
static bool grows_unread(const json_t *parameters, const struct lls_model_config *c)
{
  const json_t *beta = json_object_get(parameters, "llama_4_scaling_beta");
  return json_number_value(beta) != 0 && c->growth.factor == 0;
}

int lls_config_check_keys(const struct lls_json *json,
                          const struct lls_model_config *config, struct lls_error *err)
{
  const char *name;
  json_t *value, *parameters = json_object_get(json->root, "rope_parameters"),
                 *local = json_object_get(parameters, "sliding_attention");
  if (json_is_object(local) && config->local_rope.dims == 0 &&
      !json_equal(local, json_object_get(parameters, "full_attention")))
    return refuse(json, "rope_parameters", parameters, config->architecture->title, err);
  if (grows_unread(parameters, config) ||
      grows_unread(json_object_get(json->root, "rope_scaling"), config))
    return refuse(json, "llama_4_scaling_beta", json_true(), config->architecture->title,
                  err);
  json_object_foreach(json->root, name, value)
  {
    const struct key_rule *rule = NULL;
    if (config->text_part)
      rule = find(beside_text, COUNT(beside_text), name);
    if (rule == NULL && config->encoder)
      rule = find(encoders, COUNT(encoders), name);
    if (rule == NULL)
      rule = find(top, COUNT(top), name);
    if (!lls_json_was_read(json, name) && !is_kept(rule, value) &&
        !is_said_already(name, value, config) && (rule != NULL || !is_about_else(name)))
      return refuse(json, name, value, config->architecture->title, err);
  }
  return 0;
}

static int check_part(const struct lls_json *json, const struct key_rule *rules, size_t n,
                      const char *of, struct lls_error *err)
{
  const char *name;
  json_t *value;
  json_object_foreach(json->root, name, value)
  {
    const struct key_rule *rule = find(rules, n, name);
    if (!is_kept(rule, value) && (rule != NULL || !is_about_else(name)))
      return refuse(json, name, value, of, err);
  }
  return 0;
}

int lls_config_check_rope_keys(const struct lls_json *json, struct lls_error *err)
{
  const char *type = json_string_value(json_object_get(json->root, "rope_type"));
  if (type == NULL)
    type = json_string_value(json_object_get(json->root, "type"));
  size_t n = COUNT(rope) - (type == NULL || strcmp(type, "dynamic") != 0);
  return check_part(json, rope, n, "\"rope_scaling\"", err);
}

int lls_config_check_quantisation_keys(const struct lls_json *json, struct lls_error *err)
{
  return check_part(json, quantisation, COUNT(quantisation), "\"quantization_config\"",
                    err);
}
