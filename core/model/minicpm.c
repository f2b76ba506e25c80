/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MiniCPM 1 and 2 (arXiv 2404.06395): Llama's graph with factors of the embedding, of
 * what each branch adds, and of the logits. MiniCPM 3 has multi-head latent attention.
 */
#include "core/model/architecture.h"

#include <errno.h>
#include <math.h>

static int read_scales(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  double embedding = 1, depth = 1, base = 0;
  int rc = lls_json_real_or(json, "scale_emb", 1, &embedding, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "scale_depth", 1, &depth, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "dim_model_base", out->hidden, &base, err);
  if (rc == 0 && !(embedding > 0 && depth > 0 && base > 0))
    rc = lls_fail(err, -EINVAL, "%s: MiniCPM's scales should be above 0", json->file);
  if (rc < 0)
    return rc;
  out->embedding_scale = (float)embedding;
  out->logit_scale = (float)(base / out->hidden);
  lls_config_scale_branches(out, depth / sqrt(out->layers));
  return 0;
}

static int configure(const struct lls_json *json, struct lls_model_config *out,
                     struct lls_error *err)
{
  int rc = lls_config_llama(json, out, err);
  return rc < 0 ? rc : read_scales(json, out, err);
}

static int configure3(const struct lls_json *json, struct lls_model_config *out,
                      struct lls_error *err)
{
  int rc = lls_config_latent(json, out, err);
  return rc < 0 ? rc : read_scales(json, out, err);
}

static const char *const names3[] = {"MiniCPM3ForCausalLM", NULL};
static const char *const names[] = {"MiniCPMForCausalLM", NULL};

const struct lls_architecture lls_minicpm3 = {
    .title = "MiniCPM3",
    .names = names3,
    .configure = configure3,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_MLP, LLS_LATENT_NAMES},
};

const struct lls_architecture lls_minicpm = {
    .title = "MiniCPM",
    .names = names,
    .configure = configure,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP},
};
