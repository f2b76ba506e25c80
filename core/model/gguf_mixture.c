/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts in GGUF files: converts their metadata to keys of config.json. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/model/gguf.h"
#include "core/model/model_config.h"

static int64_t number(const struct lls_gguf *g, const char *own)
{
  char key[96];
  snprintf(key, sizeof key, "%s.%s", g->architecture->name, own);
  return lls_gguf_integer(g->files[0], key, 0);
}

static bool layer_has(const struct lls_gguf *g, unsigned layer, const char *part)
{
  char name[64];
  snprintf(name, sizeof name, "blk.%u.%s.weight", layer, part);
  return lls_gguf_tensor(g, name) != NULL;
}

static int check_counts(const struct lls_gguf *g, struct lls_error *err)
{
  const struct lls_gguf_architecture *a = g->architecture;
  int64_t experts = lls_gguf_experts(g), used = number(g, "expert_used_count");
  if (experts <= 0 && (a->model == NULL || layer_has(g, 0, "ffn_gate_exps")))
    return lls_fail(err, -EINVAL,
                    "%s: %s.expert_count should be how many experts a layer has, and is "
                    "%" PRId64 " or missing",
                    g->files[0]->path, a->name, experts);
  if (experts > 0 && a->mixture == NULL)
    return lls_fail(err, -ENOTSUP,
                    "%s: a mixture of experts of architecture %s is not supported",
                    g->files[0]->path, a->name);
  if (experts > 0 && (used < 1 || used > experts))
    return lls_fail(err, -EINVAL,
                    "%s: %s.expert_used_count should be 1 to %" PRId64
                    ", the experts of a layer, and is %" PRId64 " or missing",
                    g->files[0]->path, a->name, experts, used);
  return 0;
}

/* Lists the layers without a router, which have a single MLP. */
static json_t *dense_layers(const struct lls_gguf *g)
{
  json_t *list = json_array();
  int64_t layers = number(g, "block_count");
  for (unsigned i = 0; i < layers && i < LLS_MAX_LAYERS; i++)
    if (!layer_has(g, i, "ffn_gate_inp"))
      json_array_append_new(list, json_integer(i));
  return list;
}

int lls_gguf_describe_mixture(const struct lls_gguf *g, json_t *config,
                              struct lls_error *err)
{
  const struct lls_gguf_architecture *a = g->architecture;
  int64_t experts = lls_gguf_experts(g);
  int rc = check_counts(g, err);
  if (rc < 0)
    return rc;
  json_object_set_new(config, "architectures",
                      json_pack("[s]", experts > 0 ? a->mixture : a->model));
  if (experts == 0)
    return 0;
  json_object_set_new(config, "num_experts", json_integer(experts));
  json_object_set_new(config, "num_local_experts", json_integer(experts));
  if (a->dense_layers)
    json_object_set_new(config, "mlp_only_layers", dense_layers(g));
  if (json_object_get(config, "norm_topk_prob") == NULL)
    json_object_set_new(config, "norm_topk_prob", json_true());
  return 0;
}
