/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token ids of prompts. A block with a hash gets its ids from the hash, so requests
 * that share hashes share ids, and a prefix cache finds the same hits as in production.
 * All other blocks get their ids from (item, block), so they are shared with no other
 * item.
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

int lls_item_fill(const struct lls_workload *workload, const struct lls_item *item,
                  int32_t low, int32_t high, int32_t *ids)
{
  uint32_t done = 0;
  if (item->ids != NULL) {
    for (uint32_t i = 0; i < item->prompt_tokens; i++)
      if (item->ids[i] < 0 || item->ids[i] >= high)
        return -ERANGE;
    memcpy(ids, item->ids, item->prompt_tokens * sizeof *ids);
    return 0;
  }
  for (uint32_t i = 0; i < item->n_hashes && done < item->prompt_tokens; i++) {
    uint32_t left = item->prompt_tokens - done;
    uint32_t n = left < item->hash_tokens ? left : item->hash_tokens;
    fill_random(lls_random_at(workload->seed, LLS_STREAM_BLOCKS, item->hashes[i]), low,
                high, ids + done, n);
    done += n;
  }
  fill_random(lls_random_at(workload->seed, LLS_STREAM_TOKENS, item->index), low, high,
              ids + done, item->prompt_tokens - done);
  return 0;
}
