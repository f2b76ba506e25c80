/* SPDX-License-Identifier: Apache-2.0 */
/* Reads rotary position embeddings from config.json, in every form that such files
 * use. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/model/architecture.h"
#include "core/model/config_keys.h"

static int configure_llama3(const struct lls_json *scaling, struct lls_rope_config *rope,
                            struct lls_error *err)
{
  rope->scaling = LLS_ROPE_LLAMA3;
  int rc = lls_json_real_or(scaling, "low_freq_factor", 1.0, &rope->low_frequency, err);
  if (rc == 0)
    rc = lls_json_real_or(scaling, "high_freq_factor", 4.0, &rope->high_frequency, err);
  if (rc == 0)
    rc = lls_json_size(scaling, "original_max_position_embeddings",
                       &rope->original_context, err);
  if (rc == 0 &&
      !(rope->low_frequency > 0 && rope->low_frequency <= rope->high_frequency))
    rc = lls_fail(err, -EINVAL,
                  "%s: \"low_freq_factor\" should be positive and not above "
                  "\"high_freq_factor\"",
                  scaling->file);
  return rc;
}

static double yarn_scale(double factor, double weight)
{
  return factor > 1 ? 0.1 * weight * log(factor) + 1 : 1;
}

/* DeepSeek's and Mistral's files have two weights of YaRN's scale, and mean their
 * quotient. */
static int read_mscale(const struct lls_json *scaling, struct lls_rope_config *rope,
                       double *scale, struct lls_error *err)
{
  double one = 0, all = 0;
  int rc = lls_json_real_or(scaling, "mscale", 0, &one, err);
  if (rc == 0)
    rc = lls_json_real_or(scaling, "mscale_all_dim", 0, &all, err);
  *scale = one != 0 && all != 0
               ? yarn_scale(rope->factor, one) / yarn_scale(rope->factor, all)
               : yarn_scale(rope->factor, 1);
  rope->score_factor = all != 0 ? yarn_scale(rope->factor, all) : 1;
  return rc;
}

/* YaRN: arXiv 2309.00071, section 3.4, which scales attention by 0.1 ln(factor) + 1. */
static int configure_yarn(const struct lls_json *scaling, uint32_t context,
                          struct lls_rope_config *rope, struct lls_error *err)
{
  double scale = 1;
  rope->scaling = LLS_ROPE_YARN;
  int rc = lls_json_real_or(scaling, "beta_fast", 32, &rope->beta_fast, err);
  if (rc == 0)
    rc = lls_json_real_or(scaling, "beta_slow", 1, &rope->beta_slow, err);
  if (rc == 0)
    rc = lls_json_bool_or(scaling, "truncate", true, &rope->truncate, err);
  if (rc == 0)
    rc = lls_json_size_or(scaling, "original_max_position_embeddings", context,
                          &rope->original_context, err);
  if (rc == 0)
    rc = read_mscale(scaling, rope, &scale, err);
  if (rc == 0)
    rc = lls_json_real_or(scaling, "attention_factor", scale, &rope->attention_factor,
                          err);
  if (rc == 0 && !(rope->beta_slow > 0 && rope->beta_slow < rope->beta_fast))
    rc = lls_fail(err, -EINVAL,
                  "%s: \"beta_slow\" should be positive and below \"beta_fast\"",
                  scaling->file);
  return rc;
}

static int read_factors(const struct lls_json *scaling, const char *key,
                        float factors[LLS_MAX_ROPE_PAIRS], struct lls_error *err)
{
  const json_t *list = lls_json_get(scaling, key);
  size_t n = json_array_size(list);
  bool good = n > 0 && n <= LLS_MAX_ROPE_PAIRS;
  for (size_t i = 0; good && i < n; i++) {
    factors[i] = (float)json_number_value(json_array_get(list, i));
    good = factors[i] > 0;
  }
  return good ? 0
              : lls_fail(err, -EINVAL, "%s: \"%s\" should be 1 to %d positive numbers",
                         scaling->file, key, LLS_MAX_ROPE_PAIRS);
}

/* Hunyuan's "dynamic" scaling has a fixed alpha, and so does not depend on the length of
 * a text: the base is theta alpha^(d / (d - 2)). */
static int configure_alpha(const struct lls_json *scaling, uint32_t head_dim,
                           struct lls_rope_config *rope, struct lls_error *err)
{
  double alpha;
  int rc = lls_json_real_or(scaling, "alpha", 0, &alpha, err);
  if (rc == 0 && !(alpha > 0 && head_dim > 2))
    return lls_fail(err, -EINVAL, "%s: \"alpha\" of rope scaling should be above 0",
                    scaling->file);
  rope->theta *= pow(alpha, head_dim / (head_dim - 2.0));
  return rc;
}

/* LongRoPE: arXiv 2402.13753. The attention factor is the one of Phi-3 (arXiv
 * 2404.14219, equation 4): sqrt(1 + ln(factor) / ln(original context)). */
static int configure_long(const struct lls_json *json, const struct lls_json *scaling,
                          uint32_t context, struct lls_rope_config *rope,
                          struct lls_error *err)
{
  rope->scaling = LLS_ROPE_LONG;
  int rc = lls_json_size_or(json, "original_max_position_embeddings", context,
                            &rope->original_context, err);
  if (rc == 0)
    rc = lls_json_size_or(scaling, "original_max_position_embeddings",
                          rope->original_context, &rope->original_context, err);
  if (rc == 0)
    rc = lls_json_real_or(scaling, "factor",
                          rc < 0 ? 1 : (double)context / rope->original_context,
                          &rope->factor, err);
  double factor = 1;
  if (rc == 0 && rope->factor > 1 && rope->original_context > 1)
    factor = sqrt(1 + log(rope->factor) / log((double)rope->original_context));
  if (rc == 0)
    rc = lls_json_real_or(scaling, "attention_factor", factor, &rope->attention_factor,
                          err);
  if (rc == 0)
    rc = read_factors(scaling, "short_factor", rope->short_factors, err);
  return rc < 0 ? rc : read_factors(scaling, "long_factor", rope->long_factors, err);
}

static int read_factor(const struct lls_json *scaling, struct lls_rope_config *rope,
                       struct lls_error *err)
{
  int rc = lls_json_real_or(scaling, "factor", 0, &rope->factor, err);
  if (rc == 0 && !(rope->factor >= 1))
    rc = lls_fail(err, -EINVAL, "%s: the \"factor\" of rope scaling should be 1 or more",
                  scaling->file);
  return rc;
}

static int configure_scaling(const struct lls_json *json, const struct lls_json *scaling,
                             const struct lls_model_config *c,
                             struct lls_rope_config *rope, struct lls_error *err)
{
  uint32_t context = c->max_context;
  const char *key = lls_json_get(scaling, "rope_type") != NULL ? "rope_type" : "type";
  const char *type;
  int rc = lls_json_string_or(scaling, key, "default", &type, err);
  if (rc < 0 || strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0)
    return rc;
  if (strcmp(type, "dynamic") == 0 && lls_json_get(scaling, "alpha") != NULL)
    return configure_alpha(scaling, c->head_dim, rope, err);
  if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0)
    return configure_long(json, scaling, context, rope, err);
  if (strcmp(type, "proportional") == 0) {
    rope->scaling = LLS_ROPE_PROPORTIONAL;
    return lls_json_real_or(scaling, "factor", 1, &rope->factor, err);
  }
  bool linear = strcmp(type, "linear") == 0, llama3 = strcmp(type, "llama3") == 0;
  if (!linear && !llama3 && strcmp(type, "yarn") != 0)
    return lls_fail(err, -ENOTSUP,
                    "%s: rope scaling \"%.32s\" is not supported; supported are "
                    "\"default\", \"linear\", \"llama3\", \"yarn\", \"longrope\" and "
                    "\"proportional\"",
                    scaling->file, type);
  rope->scaling = LLS_ROPE_LINEAR;
  rc = read_factor(scaling, rope, err);
  if (rc < 0 || linear)
    return rc;
  return llama3 ? configure_llama3(scaling, rope, err)
                : configure_yarn(scaling, context, rope, err);
}

/* Gets a nested object, or an empty one. */
static int sub_object(const struct lls_json *json, const char *key, struct lls_json *out,
                      struct lls_error *err)
{
  *out = lls_json_inside(json, lls_json_get(json, key));
  if (out->root != NULL && !json_is_object(out->root))
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be an object", json->file, key);
  return 0;
}

/* Gets the rope_parameters of a type of layers, or else those of all layers. */
static int parameters_of(const struct lls_json *json, const char *type,
                         struct lls_json *out, struct lls_error *err)
{
  struct lls_json all, typed;
  bool parameters = lls_json_get(json, "rope_parameters") != NULL;
  int rc = sub_object(json, parameters ? "rope_parameters" : "rope_scaling", &all, err);
  if (rc == 0)
    rc = sub_object(&all, type, &typed, err);
  *out = rc == 0 && typed.root != NULL ? typed : all;
  if (rc == 0 && typed.root != NULL)
    rc = lls_config_check_rope_keys(&all, err);
  return rc == 0 ? lls_config_check_rope_keys(out, err) : rc;
}

int lls_config_rope(const struct lls_json *json, const char *theta_key, double share,
                    struct lls_model_config *out, struct lls_error *err)
{
  struct lls_json parameters;
  int rc = parameters_of(json, "full_attention", &parameters, err);
  if (rc == 0)
    rc = lls_json_real_or(json, theta_key, 10000.0, &out->rope.theta, err);
  if (rc == 0)
    rc = lls_json_real_or(&parameters, "rope_theta", out->rope.theta, &out->rope.theta,
                          err);
  if (rc == 0)
    rc = lls_json_real_or(json, "partial_rotary_factor", share, &share, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "rotary_pct", share, &share, err);
  if (rc == 0)
    rc = lls_json_real_or(&parameters, "partial_rotary_factor", share, &share, err);
  if (rc == 0)
    rc = configure_scaling(json, &parameters, out, &out->rope, err);
  if (rc < 0)
    return rc;
  if (!(out->rope.theta >= 1) || !(share > 0 && share <= 1))
    return lls_fail(err, -EINVAL,
                    "%s: rope's theta should be 1 or more and its share of a head "
                    "between 0 and 1",
                    json->file);
  if (out->rope.scaling == LLS_ROPE_PROPORTIONAL) {
    out->rope.share = share;
    share = 1;
  }
  out->rope.dims = (uint32_t)(out->head_dim * share);
  if (out->rope.dims == 0)
    return lls_fail(err, -EINVAL, "%s: no dimension of a head of %u would be rotated",
                    json->file, out->head_dim);
  return 0;
}

int lls_config_local_rope(const struct lls_json *json, const char *theta_key,
                          struct lls_model_config *out, struct lls_error *err)
{
  struct lls_json all, typed;
  struct lls_rope_config *rope = &out->local_rope;
  int rc = lls_json_real_or(json, theta_key, 10000.0, &rope->theta, err);
  if (rc == 0)
    rc = sub_object(json, "rope_parameters", &all, err);
  if (rc == 0)
    rc = sub_object(&all, "sliding_attention", &typed, err);
  if (rc == 0)
    rc = lls_config_check_rope_keys(&typed, err);
  const char *type = "default";
  if (rc == 0)
    rc = lls_json_string_or(&typed, "rope_type", type, &type, err);
  if (rc == 0 && strcmp(type, "default") != 0)
    rc = lls_fail(err, -ENOTSUP,
                  "%s: rope scaling \"%.32s\" of layers that slide is not supported",
                  json->file, type);
  if (rc == 0)
    rc = lls_json_real_or(&typed, "rope_theta", rope->theta, &rope->theta, err);
  if (rc == 0 && !(rope->theta >= 1))
    rc = lls_fail(err, -EINVAL, "%s: rope's theta should be 1 or more", json->file);
  rope->dims = out->rope.dims;
  return rc;
}

/* Reads the growth of queries, which stands among the parameters of YaRN. */
int lls_config_growth(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  const char *key =
      lls_json_get(json, "rope_parameters") != NULL ? "rope_parameters" : "rope_scaling";
  struct lls_json rope = lls_json_inside(json, lls_json_get(json, key));
  double factor = 0;
  int rc = lls_json_real_or(&rope, "llama_4_scaling_beta", 0, &factor, err);
  out->growth = (struct lls_query_growth){.factor = (float)factor,
                                          .every = out->rope.original_context};
  if (rc == 0 && factor != 0 && out->growth.every == 0)
    rc = lls_fail(err, -EINVAL,
                  "%s: \"llama_4_scaling_beta\" needs "
                  "\"original_max_position_embeddings\"",
                  json->file);
  return rc;
}
