/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters of a step: which rows have which; adapted_rows.c */
#ifndef LLS_ENGINE_ADAPTED_ROWS_H
#define LLS_ENGINE_ADAPTED_ROWS_H

#include "core/device/device.h"
#include "core/engine/batch.h"

struct lls_engine;
struct lls_forward;
struct lls_lora;

#define LLS_NO_ADAPTER UINT32_MAX

struct lls_engine_adapters {
  uint32_t n;                   /* different adapters of the step */
  const struct lls_lora **list; /* (max_sequences) n are used; NULL: the engine has no
                                 * room for adapters */
  uint32_t *of_sequence;        /* (max_sequences) index in list, or LLS_NO_ADAPTER */
  /* (max_sequences) of each adapter: the step's rows; the rows that need logits */
  struct lls_adapted_rows *groups, *picked;
  uint32_t *rows, *picked_rows; /* (max_tokens), (max_logit_rows) */
  float *scratch;               /* (max_tokens, ranks of a product) */
};

/* The products that adapters change. */
enum lls_adapted_product {
  LLS_ADAPTED_QKV,
  LLS_ADAPTED_OUTPUT,
  LLS_ADAPTED_UP,
  LLS_ADAPTED_DOWN,
};

/* Allocates what steps need, with options.adapters. Returns 0 or -ENOMEM. */
int lls_engine_make_adapters(struct lls_engine *);
void lls_engine_free_adapters(struct lls_engine *);

/* Returns -ENOTSUP or -EINVAL if the sequence has an adapter that steps cannot use. */
int lls_engine_check_adapter(const struct lls_engine *,
                             const struct lls_engine_sequence *, struct lls_error *err);
/* Groups the rows of a step that is laid out. */
void lls_engine_lay_out_adapters(struct lls_engine *, const struct lls_engine_batch *);
/* Adds the changes of a layer's product y of x. */
void lls_engine_adapt(const struct lls_forward *, uint32_t layer,
                      enum lls_adapted_product, const void *x, void *y);

#endif
