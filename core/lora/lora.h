/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A LoRA adapter (arXiv 2106.09685): for some matrices W of a model two thin ones, A
 * (rank, inputs) and B (outputs, rank), with which y = x W^T + scale x A^T B^T. It is
 * kept in host memory as f32, in the order of rows that the graph has, for the whole
 * model; a tensor parallel rank reads its part of it.
 *
 * Adapters are loaded from the folders that PEFT saves (lora_peft.c) and from the GGUF
 * files of llama.cpp's converter (lora_gguf.c). What the forward pass cannot add is
 * refused by name.
 *
 * An adapter does not change after it was loaded. It is shared by reference: the server
 * has one reference while the adapter is listed, and so has each request that uses it.
 */
#ifndef LLS_LORA_LORA_H
#define LLS_LORA_LORA_H

#include <stdatomic.h>

#include "core/base/error.h"
#include "core/model/model_config.h"

#define LLS_LORA_MAX_RANK 256

/* The matrices that an adapter may change. */
enum lls_lora_target {
  LLS_LORA_Q,
  LLS_LORA_K,
  LLS_LORA_V,
  LLS_LORA_OUTPUT,
  LLS_LORA_GATE,
  LLS_LORA_UP,
  LLS_LORA_DOWN,
  LLS_LORA_SHARED_GATE, /* of the expert that all rows go through */
  LLS_LORA_SHARED_UP,
  LLS_LORA_SHARED_DOWN,
  LLS_LORA_EXPERT_GATE, /* of each expert that a router chooses */
  LLS_LORA_EXPERT_UP,
  LLS_LORA_EXPERT_DOWN,
  LLS_LORA_TARGETS
};

/* The change of one matrix, or of all experts' matrices one after the other, of which
 * those with a smaller rank are filled up with zeros; rank = 0: none. */
struct lls_lora_part {
  uint32_t rank;
  float *a; /* (copies, rank, inputs) */
  float *b; /* (copies, rank, outputs): B transposed, times the scale */
};

struct lls_lora {
  atomic_uint users;
  uint32_t layers;
  size_t bytes;                 /* of all its matrices */
  unsigned char digest[32];     /* SHA-256 of them: equal for equal adapters */
  char *path;                   /* of its files; NULL: lls_lora_with_ranks made it */
  struct lls_lora_part parts[]; /* (layers, LLS_LORA_TARGETS) */
};

/* Loads an adapter for this model, which has one user then. Returns 0; -ENOENT: the path
 * does not exist; -EINVAL: the files contradict themselves or the model; -ENOTSUP: it
 * changes what the server cannot change, which err names; -ENOMEM. [any thread] */
int lls_lora_load(const char *path, const struct lls_model_config *,
                  struct lls_lora **out, struct lls_error *err);

/* Returns the numbers of the matrices of a target with this rank; 0 for 0. */
size_t lls_lora_part_numbers(const struct lls_model_config *, enum lls_lora_target,
                             uint32_t rank);
/* Makes an adapter with the ranks of its parts, whose matrices are not set yet. Returns
 * NULL without memory. */
struct lls_lora *lls_lora_with_ranks(const struct lls_model_config *,
                                     const uint32_t *ranks);

/* Adds a user; NULL is allowed. Returns the adapter. */
struct lls_lora *lls_lora_ref(struct lls_lora *);
/* Removes a user, and frees the adapter after the last one. NULL is allowed. */
void lls_lora_unref(struct lls_lora *);

/* Sizes of a target's matrix; and of how many experts the model has one, else 1. */
uint32_t lls_lora_inputs(const struct lls_model_config *, enum lls_lora_target);
uint32_t lls_lora_outputs(const struct lls_model_config *, enum lls_lora_target);
uint32_t lls_lora_copies(const struct lls_model_config *, enum lls_lora_target);

static inline const struct lls_lora_part *
lls_lora_part(const struct lls_lora *l, uint32_t layer, enum lls_lora_target target)
{
  return &l->parts[(size_t)layer * LLS_LORA_TARGETS + target];
}

#endif
