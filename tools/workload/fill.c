/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token ids of prompts. A block with a hash gets its ids from the hash, so requests
 * that share hashes share ids, and a prefix cache finds the same hits as in production.
 * The tokens that a turn keeps are those of the turn before. All other blocks get their
 * ids from (item, block), so they are shared with no other item.
 */
#include <errno.h>
#include <string.h>

#include "tools/workload/random.h"
#include "tools/workload/workload.h"

static void fill_random(struct lls_random random, int32_t low, int32_t high, int32_t *ids,
                        uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    ids[i] = low + (int32_t)lls_random_below(&random, (uint64_t)(high - low));
}

/* Fills the tokens before `end` that the item adds to those it keeps. */
static void fill_own(const struct lls_workload *workload, const struct lls_item *item,
                     int32_t low, int32_t high, int32_t *ids, uint32_t end)
{
  uint32_t done = item->kept_tokens;
  for (uint32_t i = 0; i < item->n_hashes && done < end; i++) {
    uint32_t left = end - done;
    uint32_t n = left < item->hash_tokens ? left : item->hash_tokens;
    fill_random(lls_random_at(workload->seed, LLS_STREAM_BLOCKS, item->hashes[i]), low,
                high, ids + done, n);
    done += n;
  }
  if (done < end)
    fill_random(lls_random_at(workload->seed, LLS_STREAM_TOKENS, item->index), low, high,
                ids + done, end - done);
}

int lls_item_fill(const struct lls_workload *workload, const struct lls_item *item,
                  int32_t low, int32_t high, int32_t *ids)
{
  uint32_t end = item->prompt_tokens;
  if (item->ids != NULL) {
    for (uint32_t i = 0; i < end; i++)
      if (item->ids[i] < 0 || item->ids[i] >= high)
        return -ERANGE;
    memcpy(ids, item->ids, end * sizeof *ids);
    return 0;
  }
  fill_own(workload, item, low, high, ids, end);
  while (item->previous != LLS_NO_ITEM && item->kept_tokens > 0) {
    end = item->kept_tokens < end ? item->kept_tokens : end;
    item = &workload->items[item->previous];
    if (end > item->prompt_tokens) {
      fill_random(lls_random_at(workload->seed, LLS_STREAM_ANSWER, item->index), low,
                  high, ids + item->prompt_tokens, end - item->prompt_tokens);
      end = item->prompt_tokens;
    }
    fill_own(workload, item, low, high, ids, end);
  }
  return 0;
}
