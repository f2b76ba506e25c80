/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters that ranks in other processes have copies of; rank_adapters.c */
#ifndef LLS_ENGINE_RANK_ADAPTERS_H
#define LLS_ENGINE_RANK_ADAPTERS_H

#include <stddef.h>
#include <stdint.h>

struct lls_engine;
struct lls_engine_batch;
struct lls_lora;
struct lls_model_config;
struct lls_rank_adapter;

/* Precedes each message of rank 0. */
struct lls_engine_announcement {
  uint64_t kind, bytes;
};

struct lls_rank_adapters {
  struct lls_rank_adapter *slots; /* (n) n = 0: ranks are threads of one process */
  uint32_t n;
  uint32_t *words; /* [rank 0] a message */
  uint64_t step;   /* [rank 0] the number of this step, from 1 */
};

/* Returns 0 or -ENOMEM. */
int lls_rank_adapters_init(struct lls_rank_adapters *, const struct lls_model_config *,
                           uint32_t n);
void lls_rank_adapters_free(struct lls_rank_adapters *);

/* [rank 0] Sends the adapters of a step that other ranks lack, each after an announcement
 * of this kind. Returns 0 or a negative errno. */
int lls_rank_adapters_send(struct lls_engine *, const struct lls_engine_batch *,
                           uint64_t kind);
/* [rank 0] Returns the slot of an adapter, from 1; 0: none. */
uint32_t lls_rank_adapters_find(const struct lls_rank_adapters *,
                                const struct lls_lora *);

/* [other ranks] Receives an adapter, whose words were received. Returns 0, -ENOMEM or a
 * failure of the group. */
int lls_rank_adapters_receive(struct lls_engine *, const uint32_t *words, size_t n);
/* [other ranks] Returns the adapter in a slot; NULL for 0. */
const struct lls_lora *lls_rank_adapters_at(const struct lls_rank_adapters *,
                                            uint32_t slot);

#endif
