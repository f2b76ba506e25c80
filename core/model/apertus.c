/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apertus (arXiv 2509.14233): Llama's graph with norms of each head's query and key, and
 * a plain MLP whose activation, xIELU, has parameters of each layer.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <string.h>

/* GGUF files list the parameters; a folder has them in tensors. */
static int read_list(const struct lls_json *json, const char *key, int which,
                     struct lls_model_config *out, struct lls_error *err)
{
  const json_t *list = lls_json_get(json, key);
  if (list == NULL)
    return 0;
  if (json_array_size(list) != out->layers)
    return lls_fail(err, -EINVAL, "%s: \"%s\" should be a list of %u numbers", json->file,
                    key, out->layers);
  out->xielu_listed = true;
  for (uint32_t i = 0; i < out->layers && i < LLS_MAX_LAYERS; i++)
    out->layer[i].xielu[which] = (float)json_number_value(json_array_get(list, i));
  return 0;
}

/* The third parameter is the same in every model; that of a folder is read. */
static int check_beta(const struct lls_json *json, struct lls_error *err)
{
  size_t i;
  const json_t *number;
  json_array_foreach(lls_json_get(json, "xielu_beta"), i, number)
  {
    if (json_number_value(number) != 0.5)
      return lls_fail(err, -ENOTSUP,
                      "%s: xielu.beta of layer %zu is %g; 0.5 is supported", json->file,
                      i, json_number_value(number));
  }
  return 0;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  const char *activation = json_string_value(lls_json_get(json, "hidden_act"));
  bool post = false, qk = true;
  struct lls_json rest = *json;
  if (activation != NULL && strcmp(activation, "xielu") != 0)
    return lls_fail(err, -ENOTSUP, "%s: \"hidden_act\" is \"%.32s\"; xielu is supported",
                    json->file, activation);
  rest.root = json_copy(json->root);
  if (rest.root == NULL ||
      json_object_set_new(rest.root, "hidden_act", json_string("relu")) < 0)
    return lls_fail(err, -ENOMEM, "out of memory");
  int rc = lls_config_llama(&rest, out, err);
  json_decref(rest.root);
  if (rc == 0)
    rc = lls_json_bool_or(json, "post_norm", false, &post, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "qk_norm", true, &qk, err);
  if (rc == 0 && (post || !qk))
    rc = lls_fail(err, -ENOTSUP,
                  "%s: \"qk_norm\": true and \"post_norm\": false are supported",
                  json->file);
  if (rc == 0)
    rc = read_list(json, "xielu_alpha_p", 0, out, err);
  if (rc == 0)
    rc = read_list(json, "xielu_alpha_n", 1, out, err);
  if (rc == 0)
    rc = check_beta(json, err);
  out->gated = false;
  out->xielu = true;
  out->qk_norm = LLS_QK_NORM_HEAD;
  return rc;
}

static const char *const names[] = {"ApertusForCausalLM", NULL};

const struct lls_architecture lls_apertus = {
    .title = "Apertus",
    .names = names,
    .configure = configure,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_QKV, LLS_LLAMA_QK_NORMS,
                .attention_norm = "attention_layernorm",
                .mlp_norm = "feedforward_layernorm", .up = "mlp.up_proj",
                .xielu = "mlp.act_fn."},
};
