/* SPDX-License-Identifier: Apache-2.0 */
/* Makes an adapter of the pairs of matrices that a file format's reader finds; used by
 * the files of this folder only. */
#ifndef LLS_LORA_LORA_BUILD_H
#define LLS_LORA_LORA_BUILD_H

#include "core/device/device.h"
#include "core/lora/lora.h"

/* A module's matrix is one of the targets, or several of them stacked. */
enum lls_lora_module_kind {
  LLS_LORA_STACKED_QKV = LLS_LORA_TARGETS, /* the rows of q, then of k, then of v */
  LLS_LORA_FUSED_QKV, /* rows are (key-value heads, [queries k v], head_dim) */
  LLS_LORA_STACKED_UP /* the rows of gate, then of up */
};

/* A pair of matrices in a file. */
struct lls_lora_module {
  const char *file, *name; /* for messages */
  uint32_t layer;
  uint32_t kind; /* enum lls_lora_target or lls_lora_module_kind */
  struct lls_tensor_view a, b;
  double scale;
  bool in_pairs; /* rows of q and k are stored in pairs, as GGUF files of Llama have them
                  */
};

/* Returns the kind of a module by its name within a layer, such as self_attn.q_proj; -1:
 * it is none that an adapter may change. */
int lls_lora_kind_of(const struct lls_model_config *, const char *name, uint32_t layer);

/* Returns an adapter without matrices; NULL without memory. */
struct lls_lora *lls_lora_create(const struct lls_model_config *);
/* Adds the matrices, after checking their sizes against the model. */
int lls_lora_add(struct lls_lora *, const struct lls_model_config *,
                 const struct lls_lora_module *, struct lls_error *err);

/* Read an adapter into one from lls_lora_create. */
int lls_lora_read_peft(const char *folder, const struct lls_model_config *,
                       struct lls_lora *, struct lls_error *err);
int lls_lora_read_gguf(const char *path, const struct lls_model_config *,
                       struct lls_lora *, struct lls_error *err);

#endif
