/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters of tensor parallel ranks in other processes. Rank 0 has them by address; it
 * sends an adapter that a step uses for the first time to the other ranks, which keep it
 * in a slot. A step then names the slot. Rank 0 has the same slots and chooses them: that
 * of the same matrices, else a free one or the one that no step has used for longest.
 * There is a slot for each sequence of a step.
 */
#include "core/engine/rank_adapters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/engine_internal.h"
#include "core/lora/lora.h"

struct lls_rank_adapter {
  struct lls_lora *lora; /* the other ranks' copy */
  /* rank 0: whose copy is in the slot, and the last step that used it; 0: it is free */
  unsigned char digest[32];
  uint64_t used;
};

/* Words of a message before the rank of each part: the slot, then the digest. */
#define HEAD (1 + sizeof((struct lls_lora *)NULL)->digest / sizeof(uint32_t))

static size_t n_words(const struct lls_model_config *model)
{
  return model->layers * (size_t)LLS_LORA_TARGETS + HEAD;
}

int lls_rank_adapters_init(struct lls_rank_adapters *a,
                           const struct lls_model_config *model, uint32_t n)
{
  a->slots = calloc(n, sizeof *a->slots);
  a->words = calloc(n_words(model), sizeof *a->words);
  a->n = a->slots != NULL ? n : 0;
  return a->slots != NULL && a->words != NULL ? 0 : -ENOMEM;
}

void lls_rank_adapters_free(struct lls_rank_adapters *a)
{
  for (uint32_t i = 0; i < a->n; i++)
    lls_lora_unref(a->slots[i].lora);
  free(a->slots);
  free(a->words);
}

/* ---- sending ----------------------------------------------------------------------- */

uint32_t lls_rank_adapters_find(const struct lls_rank_adapters *a,
                                const struct lls_lora *lora)
{
  for (uint32_t i = 0; lora != NULL && i < a->n; i++)
    if (a->slots[i].used > 0 &&
        memcmp(a->slots[i].digest, lora->digest, sizeof lora->digest) == 0)
      return i + 1;
  return 0;
}

static uint32_t oldest(const struct lls_rank_adapters *a)
{
  uint32_t found = 0;
  for (uint32_t i = 1; i < a->n; i++)
    if (a->slots[i].used < a->slots[found].used)
      found = i;
  return found;
}

/* Sends or receives the matrices of an adapter. */
static int broadcast_parts(struct lls_engine *e, const struct lls_lora *lora)
{
  struct lls_ranks *ranks = e->options.ranks;
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < lora->layers * LLS_LORA_TARGETS; i++) {
    const struct lls_lora_part *part = &lora->parts[i];
    size_t n = lls_lora_part_numbers(&e->model, i % LLS_LORA_TARGETS, part->rank) *
               sizeof *part->a;
    if (n > 0)
      rc = ranks->ops->broadcast(ranks, part->a, n);
  }
  return rc;
}

static int send_one(struct lls_engine *e, uint32_t slot, const struct lls_lora *lora,
                    uint64_t kind)
{
  struct lls_ranks *ranks = e->options.ranks;
  uint32_t *words = e->rank_adapters.words;
  size_t n = n_words(&e->model);
  struct lls_engine_announcement a = {.kind = kind, .bytes = n * sizeof *words};
  words[0] = slot;
  memcpy(words + 1, lora->digest, sizeof lora->digest);
  for (size_t i = HEAD; i < n; i++)
    words[i] = lora->parts[i - HEAD].rank;
  int rc = ranks->ops->broadcast(ranks, &a, sizeof a);
  if (rc == 0)
    rc = ranks->ops->broadcast(ranks, words, a.bytes);
  return rc < 0 ? rc : broadcast_parts(e, lora);
}

int lls_rank_adapters_send(struct lls_engine *e, const struct lls_engine_batch *batch,
                           uint64_t kind)
{
  struct lls_rank_adapters *a = &e->rank_adapters;
  int rc = 0;
  a->step++;
  for (uint32_t i = 0; a->n > 0 && rc == 0 && i < batch->n_sequences; i++) {
    const struct lls_lora *lora = batch->sequences[i].adapter;
    uint32_t slot = lls_rank_adapters_find(a, lora);
    if (lora == NULL)
      continue;
    if (slot == 0) {
      slot = oldest(a) + 1;
      memcpy(a->slots[slot - 1].digest, lora->digest, sizeof lora->digest);
      rc = send_one(e, slot, lora, kind);
    }
    a->slots[slot - 1].used = a->step;
  }
  return rc;
}

/* ---- receiving --------------------------------------------------------------------- */

const struct lls_lora *lls_rank_adapters_at(const struct lls_rank_adapters *a,
                                            uint32_t slot)
{
  LLS_CHECK(slot <= a->n);
  return slot > 0 ? a->slots[slot - 1].lora : NULL;
}

int lls_rank_adapters_receive(struct lls_engine *e, const uint32_t *words, size_t n)
{
  struct lls_rank_adapters *a = &e->rank_adapters;
  LLS_CHECK(n == n_words(&e->model) && words[0] >= 1 && words[0] <= a->n);
  struct lls_lora **lora = &a->slots[words[0] - 1].lora;
  lls_lora_unref(*lora);
  *lora = lls_lora_with_ranks(&e->model, words + HEAD);
  if (*lora == NULL)
    return -ENOMEM;
  memcpy((*lora)->digest, words + 1, sizeof(*lora)->digest);
  return broadcast_parts(e, *lora);
}
