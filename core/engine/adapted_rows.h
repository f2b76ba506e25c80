/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters of a step: which rows have which; adapted_rows.c */
#ifndef LLS_ENGINE_ADAPTED_ROWS_H
#define LLS_ENGINE_ADAPTED_ROWS_H

#include "core/device/device.h"
#include "core/engine/batch.h"
#include "core/engine/resident_adapters.h"
#include "core/engine/shard.h"

struct lls_engine;
struct lls_forward;
struct lls_lora;

#define LLS_NO_ADAPTER UINT32_MAX
#define LLS_EXPERT_GROUPS                                                                \
  512 /* of one call of the device; it is called until all are done */

struct lls_engine_adapters {
  uint32_t n;                   /* different adapters of the step */
  const struct lls_lora **list; /* (max_sequences) n are used; NULL: the engine has no
                                 * room for adapters */
  float *scales;                /* (max_sequences) of each of them: one adapter may be
                                 * there with several */
  /* (max_sequences) of each, where the device has its matrices; NULL: on the host */
  struct lls_resident_adapter **resident;
  struct lls_resident_adapters residents;
  uint32_t *of_sequence; /* (max_sequences) index in list, or LLS_NO_ADAPTER */
  /* (max_sequences) of each adapter: the step's rows; the rows that need logits */
  struct lls_adapted_rows *groups, *picked;
  uint32_t *rows, *picked_rows; /* (max_tokens), (max_logit_rows) */
  float *scratch;               /* (max_tokens, ranks of a product) */
  /* Mixtures: rows of some experts that have one adapter; the rows of all groups */
  struct lls_adapted_rows *expert_groups; /* (LLS_EXPERT_GROUPS) */
  uint32_t *expert_rows;                  /* (slots of a mixture) */
};

/* The products that adapters change. */
enum lls_adapted_product {
  LLS_ADAPTED_QKV,
  LLS_ADAPTED_OUTPUT,
  LLS_ADAPTED_UP,
  LLS_ADAPTED_DOWN,
  LLS_ADAPTED_SHARED_UP,
  LLS_ADAPTED_SHARED_DOWN,
  LLS_ADAPTED_EXPERT_UP, /* of each expert's rows */
  LLS_ADAPTED_EXPERT_DOWN,
};

/* A target within a product of the graph, for this rank. */
struct lls_adapted_place {
  uint32_t target; /* enum lls_lora_target */
  struct lls_range inputs, outputs;
  uint32_t first_output;
};

/* Allocates what steps need, with options.adapters; slots: of a mixture, or 0. Returns 0
 * or -ENOMEM. */
int lls_engine_make_adapters(struct lls_engine *, size_t slots);
void lls_engine_free_adapters(struct lls_engine *);

/* Returns -ENOTSUP or -EINVAL if the sequence has an adapter that steps cannot use. */
int lls_engine_check_adapter(const struct lls_engine *,
                             const struct lls_engine_sequence *, struct lls_error *err);
/* Groups the rows of a step that is laid out. */
void lls_engine_lay_out_adapters(struct lls_engine *, const struct lls_engine_batch *);
/* Adds the changes of a layer's product y of x. */
void lls_engine_adapt(const struct lls_forward *, uint32_t layer,
                      enum lls_adapted_product, const void *x, void *y);

/* Fills the targets of a product; returns their number. */
uint32_t lls_engine_adapted_places(const struct lls_engine *, enum lls_adapted_product,
                                   struct lls_adapted_place out[LLS_MAX_LOW_RANK]);
/* Fills the parts of the step's i-th adapter for these places; returns their number.
 * `copy`: which of the matrices that a target has, an expert's number or 0. */
uint32_t lls_engine_adapted_parts(const struct lls_engine *, uint32_t i, uint32_t layer,
                                  const struct lls_adapted_place *, uint32_t n,
                                  uint32_t copy, struct lls_low_rank *out);
/* Fills the parts of all groups of a product's rows. Returns the groups, one for each of
 * the step's adapters; NULL if no adapter changes the product. */
struct lls_adapted_rows *lls_engine_adapted_groups(const struct lls_forward *,
                                                   uint32_t layer,
                                                   const struct lls_adapted_place *,
                                                   uint32_t n);

/* adapted_experts.c: adds the changes of a product of experts; rows of x and y are in the
 * route's order. */
void lls_engine_adapt_experts(const struct lls_forward *, uint32_t layer,
                              enum lls_adapted_product, const struct lls_route *,
                              const void *x, void *y);

#endif
