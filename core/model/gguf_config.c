/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a GGUF file's metadata to the config.json of the folder that it was made
 * from. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/device/quantised.h"
#include "core/model/gguf.h"

static bool has(const struct lls_gguf *g, const char *name)
{
  return lls_gguf_tensor(g, name) != NULL;
}

/* Sets switches of biases and norms by the tensors in the file. */
static void describe_switches(const struct lls_gguf *g, json_t *config)
{
  static const struct lls_gguf_pair biases[] = {
      {"attention_bias", "attn_q.bias"}, {"mlp_bias", "ffn_up.bias"}, {NULL, NULL}};
  const struct lls_gguf_pair *p = g->architecture->switches;
  for (p = p != NULL ? p : biases; p->folder != NULL; p++) {
    char name[64];
    snprintf(name, sizeof name, "blk.0.%s", p->file);
    json_object_set_new(config, p->folder, json_boolean(has(g, name)));
  }
}

/* Derives the shape from the tensors in the file. */
static int describe_tensors(const struct lls_gguf *g, json_t *config,
                            struct lls_error *err)
{
  const struct lls_gguf_tensor *embedding = lls_gguf_tensor(g, "token_embd.weight");
  if (embedding == NULL || embedding->n_dims != 2)
    return lls_fail(err, -EINVAL, "%s: there is no matrix token_embd.weight",
                    g->files[0]->path);
  json_object_set_new(config, "vocab_size",
                      json_integer((json_int_t)embedding->shape[0]));
  json_object_set_new(config, "tie_word_embeddings",
                      json_boolean(!has(g, "output.weight")));
  describe_switches(g, config);
  return 0;
}

/* Sets the type to that of most elements of the matrices. */
static void describe_type(const struct lls_gguf *g, json_t *config)
{
  double numbers[LLS_CODED + 1] = {0};
  enum lls_dtype most = LLS_F32;
  for (size_t i = 0; i < g->n_files; i++)
    for (const struct lls_gguf_tensor *t = g->files[i]->tensors; t != NULL;
         t = t->hh.next)
      if (t->n_dims > 1)
        numbers[t->dtype] += (double)t->bytes / lls_dtype_number_bytes(t->dtype);
  for (int type = 0; type <= LLS_CODED; type++)
    if (numbers[type] > numbers[most])
      most = (enum lls_dtype)type;
  json_object_set_new(config, "dtype",
                      json_string(most == LLS_F32     ? "float32"
                                  : most == LLS_F16   ? "float16"
                                  : most == LLS_BF16  ? "bfloat16"
                                  : most == LLS_CODED ? "NVFP4"
                                                      : lls_dtype_name(most)));
}

/* Sets the scale of Gemma's scores. It is the head's size, except in the 27B models,
 * which are recognised by their number of layers: there it is the hidden size divided
 * by the number of heads. Other models do not set it. */
static void describe_scale(const struct lls_gguf *g, json_t *config)
{
  json_int_t layers = json_integer_value(json_object_get(config, "num_hidden_layers"));
  json_int_t hidden = json_integer_value(json_object_get(config, "hidden_size"));
  json_int_t heads = json_integer_value(json_object_get(config, "num_attention_heads"));
  bool is_27b = layers == (strcmp(g->architecture->name, "gemma2") == 0 ? 46 : 62);
  json_int_t scalar = is_27b && heads > 0
                          ? hidden / heads
                          : json_integer_value(json_object_get(config, "head_dim"));
  if (strncmp(g->architecture->name, "gemma", 5) == 0 && scalar > 0)
    json_object_set_new(config, "query_pre_attn_scalar", json_integer(scalar));
}

/* ---- positions ------------------------------------------------------------------ */

/* Reads a vector of F32; NULL if the tensor is not one. */
static json_t *numbers_of(const struct lls_gguf *g, const char *name)
{
  const struct lls_gguf_tensor *t = lls_gguf_tensor(g, name);
  if (t == NULL || t->n_dims != 1 || t->dtype != LLS_F32)
    return NULL;
  json_t *list = json_array();
  for (uint64_t i = 0; i < t->shape[0]; i++) {
    float number;
    memcpy(&number, t->data + i * sizeof number, sizeof number);
    json_array_append_new(list, json_real(number));
  }
  return list;
}

/* Reads a factor for each pair of dimensions: LongRoPE has two lists; models such as
 * Llama 3.1 have one, which replaces the parameters of config.json. */
static json_t *factors(const struct lls_gguf *g)
{
  json_t *list = numbers_of(g, "rope_freqs.weight");
  if (list != NULL)
    return json_pack("{s:s, s:O, s:o, s:f, s:f}", "rope_type", "longrope", "short_factor",
                     list, "long_factor", list, "factor", 1.0, "attention_factor", 1.0);
  json_t *few = numbers_of(g, "rope_factors_short.weight"),
         *many = numbers_of(g, "rope_factors_long.weight");
  if (few != NULL && many != NULL)
    return json_pack("{s:s, s:o, s:o}", "rope_type", "longrope", "short_factor", few,
                     "long_factor", many);
  json_decref(few);
  json_decref(many);
  return NULL;
}

/* Sets the part of a head that is rotated, with half a dimension added: the reader
 * rounds head * share down, and head * (dims / head) can be less than dims. */
static void describe_share(const struct lls_gguf *g, json_t *config)
{
  char key[96];
  snprintf(key, sizeof key, "%s.rope.dimension_count", g->architecture->name);
  int64_t dims = lls_gguf_integer(g->files[0], key, 0), head;
  snprintf(key, sizeof key, "%s.attention.head_count", g->architecture->name);
  int64_t heads = lls_gguf_integer(g->files[0], key, 0);
  snprintf(key, sizeof key, "%s.embedding_length", g->architecture->name);
  head = heads > 0 ? lls_gguf_integer(g->files[0], key, 0) / heads : 0;
  snprintf(key, sizeof key, "%s.attention.key_length", g->architecture->name);
  head = lls_gguf_integer(g->files[0], key, head);
  if (dims > 0 && dims < head)
    json_object_set_new(config, "partial_rotary_factor",
                        json_real(((double)dims + 0.5) / (double)head));
}

static int describe_scaling(const struct lls_gguf *g, json_t *config,
                            struct lls_error *err)
{
  static const char *const names[][2] = {
      {"factor", "factor"},
      {"original_context_length", "original_max_position_embeddings"},
      {"attn_factor", "attention_factor"},
      {"yarn_beta_fast", "beta_fast"},
      {"yarn_beta_slow", "beta_slow"}};
  char key[96], type[32];
  json_t *scaling = factors(g);
  snprintf(key, sizeof key, "%s.rope.scaling.type", g->architecture->name);
  if (scaling == NULL && (lls_gguf_text(g->files[0], key, type, sizeof type) == NULL ||
                          strcmp(type, "none") == 0))
    return 0;
  if (scaling == NULL)
    scaling = json_pack("{s:s}", "rope_type", type);
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof names / sizeof names[0]; i++) {
    json_t *value;
    snprintf(key, sizeof key, "%s.rope.scaling.%s", g->architecture->name, names[i][0]);
    rc = lls_gguf_value(g->files[0], key, &value, err);
    if (value != NULL && json_object_get(scaling, names[i][1]) == NULL)
      json_object_set(scaling, names[i][1], value);
    json_decref(value);
  }
  if (g->architecture->untruncated_yarn)
    json_object_set_new(scaling, "truncate", json_false());
  json_object_set_new(config, "rope_scaling", scaling);
  return rc;
}

/* ---- tokens --------------------------------------------------------------------- */

/* Returns true for the names of special tokens that end an answer, for files which list
 * only one of several. gpt-oss (goes_on) ends a message with <|end|>, and then
 * continues. */
static bool ends_answers(const char *token, bool goes_on)
{
  static const char *const names[] = {"<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",
                                      "<|endoftext|>", "<|end_of_text|>", "<|return|>",
                                      "<end_of_turn>", "<|end_of_turn|>", "<|call|>",
                                      "<EOT>"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(token, names[i]) == 0)
      return true;
  return !goes_on && strcmp(token, "<|end|>") == 0;
}

#define CONTROL 3 /* value in tokenizer.ggml.token_type */

static bool is_control(const json_t *types, size_t id)
{
  return json_integer_value(json_array_get(types, id)) == CONTROL;
}

static bool goes_on(const json_t *tokens)
{
  size_t id;
  const json_t *token;
  json_array_foreach((json_t *)tokens, id, token)
  {
    if (strcmp(json_string_value(token), "<|return|>") == 0)
      return true;
  }
  return false;
}

static void add_named_ends(const json_t *tokens, const json_t *types, json_t *ends)
{
  bool going_on = goes_on(tokens);
  size_t id;
  const json_t *token;
  json_array_foreach((json_t *)tokens, id, token)
  {
    if (is_control(types, id) && ends_answers(json_string_value(token), going_on))
      json_array_append_new(ends, json_integer((json_int_t)id));
  }
}

static int describe_tokens(const struct lls_gguf *g, json_t *config,
                           struct lls_error *err)
{
  static const char *const marks[] = {"eos", "eot", "eom"};
  const struct lls_gguf_file *file = g->files[0];
  json_t *tokens = NULL, *types = NULL, *ends = json_array();
  int64_t bos = lls_gguf_integer(file, "tokenizer.ggml.bos_token_id", -1);
  json_object_set_new(config, "eos_token_id", ends);
  if (bos >= 0)
    json_object_set_new(config, "bos_token_id", json_integer(bos));
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    char key[64];
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", marks[i]);
    int64_t id = lls_gguf_integer(file, key, -1);
    if (id >= 0)
      json_array_append_new(ends, json_integer(id));
  }
  int rc = lls_gguf_value(file, "tokenizer.ggml.tokens", &tokens, err);
  if (rc == 0)
    rc = lls_gguf_value(file, "tokenizer.ggml.token_type", &types, err);
  if (rc == 0 && json_is_string(json_array_get(tokens, 0)))
    add_named_ends(tokens, types, ends);
  json_decref(tokens);
  json_decref(types);
  return rc;
}

static int describe(const struct lls_gguf *g, json_t *config, struct lls_error *err)
{
  json_object_set_new(config, "model_type", json_string(g->architecture->name));
  int rc = lls_gguf_copy_keys(g, config, err);
  if (rc == 0)
    rc = lls_gguf_describe_mixture(g, config, err);
  if (rc == 0)
    rc = describe_tensors(g, config, err);
  if (rc == 0)
    rc = g->architecture->encoder ? lls_gguf_describe_encoder(g, config, err)
                                  : lls_gguf_describe_scores(g, config, err);
  if (rc == 0)
    rc = describe_scaling(g, config, err);
  describe_share(g, config);
  describe_scale(g, config);
  if (g->architecture->describe != NULL)
    g->architecture->describe(g, config);
  if (rc == 0)
    rc = describe_tokens(g, config, err);
  describe_type(g, config);
  return rc < 0 ? rc : lls_gguf_check_keys(g, config, err);
}

int lls_gguf_config(const char *path, json_t **out, struct lls_error *err)
{
  struct lls_gguf *g;
  int rc = lls_gguf_open(path, &g, err);
  if (rc < 0)
    return rc;
  json_t *config = json_object();
  rc = describe(g, config, err);
  lls_gguf_close(g);
  if (rc < 0)
    json_decref(config);
  else
    *out = config;
  return rc;
}

/* ---- sampling -------------------------------------------------------------------- */

int lls_gguf_sampling(const char *path, json_t **out, struct lls_error *err)
{
  static const struct {
    const char *own, *folder;
  } keys[] = {{"general.sampling.temp", "temperature"},
              {"general.sampling.top_k", "top_k"},
              {"general.sampling.top_p", "top_p"},
              {"general.sampling.min_p", "min_p"},
              {"general.sampling.penalty_repeat", "repetition_penalty"}};
  struct lls_gguf *g;
  int rc = lls_gguf_open(path, &g, err);
  if (rc < 0)
    return rc;
  json_t *config = json_object();
  for (size_t i = 0; rc == 0 && i < sizeof keys / sizeof keys[0]; i++) {
    json_t *value = NULL;
    rc = lls_gguf_value(g->files[0], keys[i].own, &value, err);
    if (rc == 0 && value != NULL)
      json_object_set_new(config, keys[i].folder, value);
  }
  lls_gguf_close(g);
  if (rc < 0)
    json_decref(config);
  else
    *out = config;
  return rc;
}
