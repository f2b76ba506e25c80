/* SPDX-License-Identifier: Apache-2.0 */
/* Layers with the state space of Mamba-2 (arXiv 2405.21060), which several families
 * have under keys of their own. */
#include "core/model/architecture.h"

#include <errno.h>
#include <math.h>

const struct lls_mamba_keys lls_mamba_keys = {.heads = "mamba_n_heads",
                                              .head_dim = "mamba_d_head",
                                              .groups = "mamba_n_groups",
                                              .states = "mamba_d_state",
                                              .width = "mamba_d_conv",
                                              .expand = "mamba_expand",
                                              .chunk = "mamba_chunk_size",
                                              .conv_bias = "mamba_conv_bias",
                                              .bias = "mamba_proj_bias"};

/* The file has infinity as the JSON of Python has it, in a text, or as null. */
static int read_limits(const struct lls_json *json, struct lls_recurrent_config *r,
                       struct lls_error *err)
{
  const json_t *limits = lls_json_get(json, "time_step_limit");
  const json_t *low = json_array_get(limits, 0), *high = json_array_get(limits, 1);
  r->dt_min = 0;
  r->dt_max = INFINITY;
  if (limits == NULL || json_is_null(limits))
    return 0;
  if (!json_is_number(low) || !(json_number_value(low) >= 0))
    return lls_fail(err, -EINVAL, "%s: \"time_step_limit\" should be two numbers",
                    json->file);
  r->dt_min = (float)json_number_value(low);
  if (json_is_number(high))
    r->dt_max = (float)json_number_value(high);
  return 0;
}

/* The heads' columns are those of a wider x, which the file may say in either way. */
static int read_head_dim(const struct lls_json *json, const struct lls_mamba_keys *keys,
                         const struct lls_model_config *c, struct lls_recurrent_config *r,
                         struct lls_error *err)
{
  uint32_t expand = 2;
  int rc = lls_json_size_or(json, keys->expand, 2, &expand, err);
  uint64_t width = (uint64_t)expand * c->hidden;
  uint32_t share = r->value_heads > 0 ? (uint32_t)(width / r->value_heads) : 0;
  if (rc == 0 && json_is_string(lls_json_get(json, keys->head_dim)))
    r->value_dim = share;
  else if (rc == 0)
    rc = lls_json_size_or(json, keys->head_dim, share, &r->value_dim, err);
  return rc;
}

int lls_config_epsilon(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  double epsilon = 1e-5;
  int rc = lls_json_real_or(json, "layer_norm_epsilon", 1e-5, &epsilon, err);
  if (rc == 0 && lls_json_get(json, "rms_norm_eps") != NULL)
    rc = lls_json_real_or(json, "rms_norm_eps", epsilon, &epsilon, err);
  out->norm_epsilon = (float)epsilon;
  return rc;
}

int lls_config_mamba(const struct lls_json *json, const struct lls_mamba_keys *keys,
                     struct lls_model_config *out, struct lls_error *err)
{
  struct lls_recurrent_config *r = &out->recurrent;
  int rc = lls_json_size_or(json, keys->heads, 128, &r->value_heads, err);
  if (rc == 0)
    rc = lls_json_size_or(json, keys->groups, 1, &r->key_heads, err);
  if (rc == 0)
    rc = lls_json_size_or(json, keys->states, 128, &r->key_dim, err);
  if (rc == 0)
    rc = lls_json_size_or(json, keys->width, 4, &r->conv_width, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, keys->conv_bias, true, &r->conv_bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, keys->bias, false, &r->product_bias, err);
  if (rc == 0)
    rc = read_head_dim(json, keys, out, r, err);
  if (rc == 0)
    rc = read_limits(json, r, err);
  lls_json_get(json, keys->chunk); /* rows that a kernel takes at once */
  r->norm_epsilon = out->norm_epsilon;
  if (rc == 0 && r->value_dim == 0)
    rc = lls_fail(err, -EINVAL, "%s: %u heads are more than the columns that they share",
                  json->file, r->value_heads);
  if (rc == 0 && r->value_heads % r->key_heads != 0)
    rc = lls_fail(err, -EINVAL, "%s: %u heads cannot be divided among %u groups",
                  json->file, r->value_heads, r->key_heads);
  return rc;
}
