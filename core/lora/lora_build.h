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
  LLS_LORA_FUSED_QKV,      /* rows are (key-value heads, [queries k v], head_dim) */
  LLS_LORA_STACKED_UP,     /* the rows of gate, then of up */
  LLS_LORA_STACKED_SHARED, /* the same of the shared expert */
  LLS_LORA_STACKED_EXPERTS /* the same of all experts, as `lls_tensor_names` has them */
};

#define LLS_LORA_EVERY UINT32_MAX /* instead of an expert's number */

/* A pair of matrices in a file. */
struct lls_lora_module {
  const char *file, *name; /* for messages */
  uint32_t layer;
  uint32_t kind; /* enum lls_lora_target or lls_lora_module_kind */
  struct lls_tensor_view a, b;
  double scale;
  bool in_pairs; /* rows of q and k are stored in pairs, as GGUF files of Llama have them
                  */
  /* Kinds of experts: the number, or LLS_LORA_EVERY: A has (experts, rank) rows, and B
   * (experts, outputs) rows, or with `across` (rank, experts) columns as in PEFT. */
  uint32_t expert;
  bool across;
};

/* Returns the kind of a module by its name within a layer, such as self_attn.q_proj; -1:
 * it is none that an adapter may change. */
int lls_lora_kind_of(const struct lls_model_config *, const char *name, uint32_t layer);

/* lora_experts.c: returns a target of one expert, whose number is set, by a module's name
 * such as mlp.experts.3.up_proj; LLS_LORA_STACKED_EXPERTS, and LLS_LORA_EVERY, for the
 * module with the parameters of all experts, mlp.experts; -1: neither. */
int lls_lora_expert_kind(const struct lls_model_config *, const char *name,
                         uint32_t layer, uint32_t *expert);
/* Returns the kind of a pair of such a module, by its sizes; -1: they do not tell which
 * parameter it changes. */
int lls_lora_parameter_kind(const struct lls_model_config *,
                            const struct lls_lora_module *);
static inline bool lls_lora_is_of_experts(uint32_t kind)
{
  return kind == LLS_LORA_STACKED_EXPERTS ||
         (kind >= LLS_LORA_EXPERT_GATE && kind <= LLS_LORA_EXPERT_DOWN);
}
/* lls_lora_add for the kinds of experts. */
int lls_lora_add_experts(struct lls_lora *, const struct lls_model_config *,
                         const struct lls_lora_module *, struct lls_error *err);

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
