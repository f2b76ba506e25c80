/* SPDX-License-Identifier: Apache-2.0 */
/* Translates names of architectures and tensors in GGUF files. */
#include <stdio.h>
#include <string.h>

#include <errno.h>

#include "core/model/gguf.h"

/* OLMo 3 has the name of OLMo 2, and windows. */
static void describe_olmo(const struct lls_gguf *g, json_t *config)
{
  (void)g;
  if (json_is_integer(json_object_get(config, "sliding_window")))
    json_object_set_new(config, "architectures", json_pack("[s]", "Olmo3ForCausalLM"));
}

static void describe_embedding_gemma(const struct lls_gguf *g, json_t *config)
{
  (void)g;
  json_object_set_new(config, "use_bidirectional_attention", json_true());
}

static const struct lls_gguf_pair dense_tensors[] = {
    {"dense_2", "dense_2"}, {"dense_3", "dense_3"}, {NULL, NULL}};

static const struct lls_gguf_pair nomic_tensors[] = {{"emb_ln", "token_embd_norm"},
                                                     {"attn.Wqkv", "attn_qkv"},
                                                     {"attn.out_proj", "attn_output"},
                                                     {"norm1", "attn_output_norm"},
                                                     {"mlp.fc11", "ffn_up"},
                                                     {"mlp.fc12", "ffn_gate"},
                                                     {"mlp.fc2", "ffn_down"},
                                                     {"norm2", "layer_output_norm"},
                                                     {NULL, NULL}};

static const struct lls_gguf_pair modernbert_tensors[] = {
    {"embeddings.tok_embeddings", "token_embd"},
    {"embeddings.norm", "token_embd_norm"},
    {"final_norm", "output_norm"},
    {"attn_norm", "attn_norm"},
    {"attn.Wqkv", "attn_qkv"},
    {"attn.Wo", "attn_output"},
    {"mlp_norm", "ffn_norm"},
    {"mlp.Wi", "ffn_up"},
    {"mlp.Wo", "ffn_down"},
    {"head.dense", "cls"},
    {"head.norm", "cls.norm"},
    {"classifier", "cls.output"},
    {NULL, NULL}};

static const struct lls_gguf_pair modernbert_keys[] = {
    {"norm_eps", "attention.layer_norm_epsilon"},
    {"local_attention", "attention.sliding_window"},
    {"global_attn_every_n_layers", "attention.sliding_window_pattern"},
    {"global_rope_theta", "rope.freq_base"},
    {"local_rope_theta", "rope.freq_base_swa"},
    {NULL, NULL}};

static const struct lls_gguf_architecture architectures[] = {
    {.name = "bert", .model = "BertModel", .encoder = true},
    {.name = "modern-bert",
     .model = "ModernBertModel",
     .encoder = true,
     .tensors = modernbert_tensors,
     .keys = modernbert_keys},
    {.name = "nomic-bert",
     .model = "NomicBertModel",
     .encoder = true,
     .tensors = nomic_tensors},
    {.name = "gemma-embedding",
     .model = "Gemma3TextModel",
     .both_ways = true,
     .post_norms = true,
     .raised_norms = true,
     .tensors = dense_tensors,
     .describe = describe_embedding_gemma},
    {.name = "llama",
     .model = "LlamaForCausalLM",
     .mixture = "MixtralForCausalLM",
     .pairs = true},
    {.name = "qwen2", .model = "Qwen2ForCausalLM"},
    {.name = "qwen3", .model = "Qwen3ForCausalLM"},
    {.name = "qwen3moe", .mixture = "Qwen3MoeForCausalLM", .dense_layers = true},
    {.name = "smollm3", .model = "SmolLM3ForCausalLM", .pairs = true},
    {.name = "olmo2",
     .model = "Olmo2ForCausalLM",
     .post_norms = true,
     .describe = describe_olmo},
    {.name = "phi3", .model = "Phi3ForCausalLM"},
    {.name = "gpt-oss",
     .mixture = "GptOssForCausalLM",
     .post_norms = true,
     .untruncated_yarn = true},
    {.name = "gemma2",
     .model = "Gemma2ForCausalLM",
     .post_norms = true,
     .raised_norms = true},
    {.name = "gemma3",
     .model = "Gemma3ForCausalLM",
     .post_norms = true,
     .raised_norms = true},
};

#define N_ARCHITECTURES (sizeof architectures / sizeof architectures[0])

/* Returns the i-th description of all lists, or NULL if there are fewer. */
static const struct lls_gguf_architecture *architecture_at(size_t i)
{
  if (i < N_ARCHITECTURES)
    return &architectures[i];
  i -= N_ARCHITECTURES;
  if (i < lls_n_gguf_families)
    return &lls_gguf_families[i];
  i -= lls_n_gguf_families;
  if (i < lls_n_gguf_moe)
    return &lls_gguf_moe[i];
  i -= lls_n_gguf_moe;
  if (i < lls_n_gguf_recurrent)
    return &lls_gguf_recurrent[i];
  i -= lls_n_gguf_recurrent;
  return i < lls_n_gguf_mamba ? &lls_gguf_mamba[i] : NULL;
}

const struct lls_gguf_architecture *lls_gguf_architecture_named(const char *name)
{
  for (size_t i = 0; architecture_at(i) != NULL; i++)
    if (strcmp(architecture_at(i)->name, name) == 0)
      return architecture_at(i);
  return NULL;
}

int lls_gguf_architecture_of(const struct lls_gguf_file *file,
                             const struct lls_gguf_architecture **out,
                             struct lls_error *err)
{
  char name[64], list[384] = "";
  size_t used = 0;
  if (lls_gguf_text(file, "general.type", name, sizeof name) != NULL &&
      strcmp(name, "model") != 0)
    return lls_fail(
        err, -ENOTSUP, "%s: general.type is \"%s\"%s: name the file of the model itself",
        file->path, name,
        strcmp(name, "adapter") == 0
            ? ", a LoRA, which [lora] or /v1/load_lora_adapter loads beside its model"
            : "");
  if (lls_gguf_text(file, "general.architecture", name, sizeof name) == NULL)
    return lls_fail(err, -EINVAL, "%s: general.architecture should name the model's kind",
                    file->path);
  *out = lls_gguf_architecture_named(name);
  for (size_t i = 0; *out == NULL && architecture_at(i) != NULL; i++) {
    const struct lls_gguf_architecture *a = architecture_at(i);
    used += used < sizeof list ? (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                                  used == 0 ? "" : ", ", a->name)
                               : 0;
  }
  if (*out != NULL)
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "%s: architecture %s is not supported in a GGUF file; supported are %s",
                  file->path, name, list);
}

static const struct lls_gguf_pair ends[] = {{"embed_tokens", "token_embd"},
                                            {"norm", "output_norm"},
                                            {"lm_head", "output"},
                                            {"score", "cls.output"}};

static const struct lls_gguf_pair parts[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
};

/* Parts of experts, each of which is one tensor for all experts; names are without the
 * expert's number. */
static const struct lls_gguf_pair expert_parts[] = {
    {"block_sparse_moe.experts.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.w3", "ffn_up_exps"},
    {"block_sparse_moe.experts.w2", "ffn_down_exps"},
    {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"feed_forward.experts.gate_proj", "ffn_gate_exps"},
    {"feed_forward.experts.up_proj", "ffn_up_exps"},
    {"feed_forward.experts.down_proj", "ffn_down_exps"},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps"},
    {"mixer.experts.up_proj", "ffn_up_exps"},
    {"mixer.experts.down_proj", "ffn_down_exps"},
    {"experts.gate_up_proj", "ffn_gate_up_exps"},
    {"experts.gate_proj", "ffn_gate_exps"},
    {"experts.up_proj", "ffn_up_exps"},
    {"experts.down_proj", "ffn_down_exps"},
};

/* Names whose suffix differs, too. */
static const struct lls_gguf_pair whole_parts[] = {
    {"self_attn.sinks", "attn_sinks.weight"},
    {"layer_scalar", "layer_output_scale.weight"},
    {"altup.correct_output_scale", "altup_correct_scale.weight"},
    {"pre_ff_layernorm.weight", "ffn_norm"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"mixer.A_log", "ssm_a"},
    {"mixer.dt_bias", "ssm_dt.bias"},
    {"mixer.D", "ssm_d"},
    {"mamba.A_log", "ssm_a"},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.D", "ssm_d"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.expert_bias", "exp_probs_b"},
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"}};

static const struct lls_gguf_pair input_norms[] = {
    {"post_attention_layernorm", "ffn_norm"}};
static const struct lls_gguf_pair post_norms[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

#define COUNT(list) (sizeof list / sizeof list[0])

static const char *look_up(const struct lls_gguf_pair *list, size_t n, const char *name,
                           size_t length)
{
  for (size_t i = 0; i < n; i++)
    if (strlen(list[i].folder) == length && memcmp(list[i].folder, name, length) == 0)
      return list[i].file;
  return NULL;
}

/* Looks in the architecture's own list. */
static const char *own_name(const struct lls_gguf_architecture *a, const char *name,
                            size_t length)
{
  size_t n = 0;
  while (a->tensors != NULL && a->tensors[n].folder != NULL)
    n++;
  return look_up(a->tensors, n, name, length);
}

static const char *part_name(const struct lls_gguf_architecture *a, const char *name,
                             size_t length)
{
  const char *found = own_name(a, name, length);
  if (found == NULL)
    found = look_up(parts, COUNT(parts), name, length);
  if (found != NULL)
    return found;
  return a->post_norms ? look_up(post_norms, COUNT(post_norms), name, length)
                       : look_up(input_norms, COUNT(input_norms), name, length);
}

/* Parses "mlp.experts.3.up_proj" or "experts.3.up_proj" of `length` bytes: sets the
 * expert, returns the file's name of the part. */
static const char *expert_part(const char *name, size_t length, int64_t *expert)
{
  char kind[24], part[24], whole[64];
  unsigned number;
  int end = 0;
  if (sscanf(name, "experts.%9u.%23[a-z0-9_]%n", &number, part, &end) == 2)
    strcpy(kind, "");
  else if (sscanf(name, "%22[a-z_].experts.%9u.%23[a-z0-9_]%n", kind, &number, part,
                  &end) == 3)
    strcat(kind, ".");
  else
    return NULL;
  if ((size_t)end != length)
    return NULL;
  *expert = number;
  int n = snprintf(whole, sizeof whole, "%sexperts.%s", kind, part);
  return look_up(expert_parts, COUNT(expert_parts), whole, (size_t)n);
}

/* Parses the number at the end of a name outside of layers: such matrices are one tensor,
 * as those of experts are. */
static const char *numbered_name(const struct lls_gguf_architecture *a, const char *name,
                                 size_t length, int64_t *number)
{
  char before[48];
  unsigned i;
  int end = 0;
  if (sscanf(name, "%47[a-z_].%9u%n", before, &i, &end) != 2 || (size_t)end != length)
    return NULL;
  *number = i;
  return own_name(a, before, strlen(before));
}

/* Returns the file's name of a tensor within a layer; `length` excludes the suffix. */
static const char *layer_name(const struct lls_gguf_architecture *a, const char *name,
                              size_t length, int64_t *expert)
{
  const char *found = part_name(a, name, length);
  return found != NULL ? found : expert_part(name, length, expert);
}

/* ---- encoders ---- */

static const struct lls_gguf_pair encoder_ends[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"classifier.dense", "cls"},
    {"classifier.out_proj", "cls.output"},
};

static const struct lls_gguf_pair encoder_parts[] = {
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
};

static bool encoder_name(const struct lls_gguf_architecture *a, const char *name,
                         char *out, size_t size)
{
  unsigned layer;
  int skip = 0;
  bool in_layer = (sscanf(name, "encoder.layer.%u.%n", &layer, &skip) == 1 ||
                   sscanf(name, "encoder.layers.%u.%n", &layer, &skip) == 1 ||
                   sscanf(name, "layers.%u.%n", &layer, &skip) == 1) &&
                  skip > 0;
  const char *part = name + (in_layer ? skip : 0), *suffix = strrchr(part, '.');
  size_t length = suffix != NULL ? (size_t)(suffix - part) : 0;
  const char *found = own_name(a, part, length);
  if (found == NULL)
    found = in_layer ? look_up(encoder_parts, COUNT(encoder_parts), part, length)
                     : look_up(encoder_ends, COUNT(encoder_ends), part, length);
  if (found != NULL && in_layer)
    snprintf(out, size, "blk.%u.%s%s", layer, found, suffix);
  else if (found != NULL)
    snprintf(out, size, "%s%s", found, suffix);
  return found != NULL;
}

/* ---- the entry point ---- */

/* Returns the name without the prefix that all tensors of a folder have. */
static const char *without_prefix(const char *name)
{
  static const char *const prefixes[] = {"model.", "transformer.", "gpt_neox.",
                                         "backbone."};
  for (size_t i = 0; i < COUNT(prefixes); i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
      return name + strlen(prefixes[i]);
  return name;
}

bool lls_gguf_name(const struct lls_gguf_architecture *a, const char *name, char *out,
                   size_t size, int64_t *expert)
{
  unsigned layer;
  int skip = 0;
  *expert = -1;
  if (a->encoder)
    return encoder_name(a, name, out, size);
  name = without_prefix(name);
  bool in_layer = (sscanf(name, "layers.%u.%n", &layer, &skip) == 1 && skip > 0) ||
                  (sscanf(name, "h.%u.%n", &layer, &skip) == 1 && skip > 0) ||
                  (sscanf(name, "blocks.%u.%n", &layer, &skip) == 1 && skip > 0);
  const char *part = name + (in_layer ? skip : 0);
  const char *found = look_up(whole_parts, COUNT(whole_parts), part, strlen(part));
  const char *suffix = found != NULL ? "" : strrchr(part, '.');
  if (suffix == NULL)
    return false;
  if (found == NULL) {
    size_t length = (size_t)(suffix - part);
    found = in_layer ? layer_name(a, part, length, expert) : own_name(a, part, length);
    if (found == NULL && !in_layer)
      found = look_up(ends, COUNT(ends), part, length);
    if (found == NULL && !in_layer)
      found = numbered_name(a, part, length, expert);
  }
  if (found == NULL)
    return false;
  if (in_layer)
    snprintf(out, size, "blk.%u.%s%s", layer, found, suffix);
  else
    snprintf(out, size, "%s%s", found, suffix);
  return true;
}
