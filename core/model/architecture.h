/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An architecture is one file: the names it goes by, how its config.json is read, and
 * what its tensors are called. To add one, write the file, list it in architectures[] of
 * model_config.c and give it a reference model in t/data/models.
 */
#ifndef LLS_MODEL_ARCHITECTURE_H
#define LLS_MODEL_ARCHITECTURE_H

#include "core/model/model_config.h"
#include "core/model/json.h"

/*
 * Names without their ".weight" or ".bias". NULL: the architecture has no such tensor.
 * Full names are prefix + name, for tensors of a layer prefix + layers + "N." + name; the
 * head has no prefix.
 */
struct lls_tensor_names {
  const char *prefixes[3]; /* the first under which the embedding is found */
  const char *embedding, *positions, *project_in, *project_out, *final_norm, *head;
  const char *layers; /* "layers." */
  const char *attention_norm, *mlp_norm;
  const char *q, *k, *v;
  const char *fused_qkv; /* instead: rows are (heads, [q k v], head_dim) */
  const char *output;
  const char *gate, *up, *down;
  const char *types, *embedding_norm; /* encoders: added to the embedding, norm after */
};

struct lls_architecture {
  const char *const *names; /* as in "architectures", ends with NULL */
  bool encoder;             /* makes vectors of texts, not texts */
  struct lls_tensor_names tensors;
  /* Fills what the keys say; sizes are checked by the caller. */
  int (*configure)(const struct lls_json *, struct lls_model_config *,
                   struct lls_error *);
};

extern const struct lls_architecture lls_llama, lls_opt, lls_neox, lls_bert;

/* Helpers for configure. */
int lls_config_sizes(const struct lls_json *, struct lls_model_config *,
                     const char *ffn_key, struct lls_error *err);
int lls_config_activation(const struct lls_json *, const char *key, const char *fallback,
                          enum lls_activation *out, struct lls_error *err);
/* From rope_parameters (transformers 5), or rope_scaling and theta_key. share: the part
 * of a head that is rotated where the file does not say. */
int lls_config_rope(const struct lls_json *, const char *theta_key, double share,
                    struct lls_model_config *, struct lls_error *err);

#endif
