/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Granite 3 (IBM): Llama's graph with four factors: of the embedding, of what each
 * branch adds, of the scores, and, as a divisor, of the logits.
 */
#include "core/model/architecture.h"

#include <errno.h>

int lls_config_granite(const struct lls_json *json, struct lls_model_config *out,
                       struct lls_error *err)
{
  double embedding, residual = 1, attention = 1, logits = 1;
  int rc = lls_config_llama(json, out, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "embedding_multiplier", 1, &embedding, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "residual_multiplier", 1, &residual, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "attention_multiplier", 1, &attention, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "logits_scaling", 1, &logits, err);
  if (rc < 0)
    return rc;
  if (!(embedding > 0 && residual > 0 && attention > 0 && logits > 0))
    return lls_fail(err, -EINVAL, "%s: Granite's multipliers should be above 0",
                    json->file);
  out->embedding_scale = (float)embedding;
  out->attention_scale = (float)attention;
  out->logit_scale = (float)(1 / logits);
  lls_config_scale_branches(out, residual);
  return 0;
}

static const char *const names[] = {"GraniteForCausalLM", NULL};

const struct lls_architecture lls_granite = {
    .title = "Granite 3",
    .names = names,
    .configure = lls_config_granite,
    .tensors = {LLS_LLAMA_TENSORS, LLS_LLAMA_NORMS, LLS_LLAMA_QKV, LLS_LLAMA_MLP},
};
