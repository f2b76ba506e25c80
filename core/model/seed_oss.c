/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seed-OSS (ByteDance): Llama's graph with biases of query, key and value, which have a
 * key of their own beside the one of the output.
 */
#include "core/model/architecture.h"

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "attention_bias", true, &out->qkv_bias, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "attention_out_bias", false, &out->output_bias, err);
  return rc;
}

static const char *const names[] = {"SeedOssForCausalLM", NULL};

const struct lls_architecture lls_seed_oss = {
    .title = "Seed-OSS",
    .names = names,
    .configure = configure,
    .tensors =
        {
            LLS_LLAMA_TENSORS,
            LLS_LLAMA_NORMS,
            LLS_LLAMA_QKV,
            LLS_LLAMA_MLP,
        },
};
