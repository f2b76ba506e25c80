/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary position embedding: its configuration in every form that config.json files
 * have, and the angle per position of each rotated pair of dimensions.
 *
 *   plain   theta^(-2i/dims)                        RoFormer, arXiv 2104.09864, eq. 15
 *   linear  the same / factor                       arXiv 2306.15595
 *   llama3  long waves / factor, short ones kept, those between blended by wavelength
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/model/architecture.h"

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
  if (rc == 0 && !(rope->low_frequency > 0 && rope->low_frequency < rope->high_frequency))
    rc = lls_fail(err, -EINVAL,
                  "%s: \"low_freq_factor\" should be positive and below "
                  "\"high_freq_factor\"",
                  scaling->file);
  return rc;
}

static int configure_scaling(const struct lls_json *scaling, struct lls_rope_config *rope,
                             struct lls_error *err)
{
  const char *key = lls_json_get(scaling, "rope_type") != NULL ? "rope_type" : "type";
  const char *type;
  int rc = lls_json_string_or(scaling, key, "default", &type, err);
  if (rc < 0)
    return rc;
  if (strcmp(type, "default") == 0)
    return 0;
  if (strcmp(type, "linear") != 0 && strcmp(type, "llama3") != 0)
    return lls_fail(err, -ENOTSUP,
                    "%s: rope scaling \"%.32s\" is not supported; supported are "
                    "\"default\", \"linear\" and \"llama3\"",
                    scaling->file, type);
  rope->scaling = LLS_ROPE_LINEAR;
  rc = lls_json_real_or(scaling, "factor", 0, &rope->factor, err);
  if (rc == 0 && !(rope->factor >= 1))
    rc = lls_fail(err, -EINVAL, "%s: the \"factor\" of rope scaling should be 1 or more",
                  scaling->file);
  if (rc == 0 && strcmp(type, "llama3") == 0)
    rc = configure_llama3(scaling, rope, err);
  return rc;
}

/* An object of the object, or an empty one. */
static int sub_object(const struct lls_json *json, const char *key, struct lls_json *out,
                      struct lls_error *err)
{
  *out = *json;
  out->root = lls_json_get(json, key);
  if (out->root != NULL && !json_is_object(out->root))
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be an object", json->file, key);
  return 0;
}

int lls_config_rope(const struct lls_json *json, const char *theta_key, double share,
                    struct lls_model_config *out, struct lls_error *err)
{
  struct lls_json parameters;
  bool parameters_key = lls_json_get(json, "rope_parameters") != NULL;
  int rc = sub_object(json, parameters_key ? "rope_parameters" : "rope_scaling",
                      &parameters, err);
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
    rc = configure_scaling(&parameters, &out->rope, err);
  if (rc < 0)
    return rc;
  if (!(out->rope.theta >= 1) || !(share > 0 && share <= 1))
    return lls_fail(err, -EINVAL,
                    "%s: rope's theta should be 1 or more and its share of a head "
                    "between 0 and 1",
                    json->file);
  out->rope.dims = (uint32_t)(out->head_dim * share);
  if (out->rope.dims == 0)
    return lls_fail(err, -EINVAL, "%s: no dimension of a head of %u would be rotated",
                    json->file, out->head_dim);
  return 0;
}

static double llama3_scaled(const struct lls_rope_config *rope, double frequency)
{
  double waves = rope->original_context * frequency / (2 * M_PI); /* in the context */
  if (waves > rope->high_frequency)
    return frequency;
  if (waves < rope->low_frequency)
    return frequency / rope->factor;
  double kept =
      (waves - rope->low_frequency) / (rope->high_frequency - rope->low_frequency);
  return kept * frequency + (1 - kept) * frequency / rope->factor;
}

void lls_rope_frequencies(const struct lls_rope_config *rope, float *inverse_frequency)
{
  for (uint32_t i = 0; i < rope->dims / 2; i++) {
    double frequency = pow(rope->theta, -2.0 * i / rope->dims);
    if (rope->scaling == LLS_ROPE_LINEAR)
      frequency /= rope->factor;
    else if (rope->scaling == LLS_ROPE_LLAMA3)
      frequency = llama3_scaled(rope, frequency);
    inverse_frequency[i] = (float)frequency;
  }
}
