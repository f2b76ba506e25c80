/* SPDX-License-Identifier: Apache-2.0 */
/* See ranked.h. */
#include <llmserve/policy/ranked.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static void insert(void *self, const struct lls_request *r)
{
  struct lls_pol_ranked *k = self;
  lls_pol_heap_push(&k->heap, (struct lls_pol_heap_entry){.key = k->key(k->scheduler, r),
                                                          .tie = r->id,
                                                          .item = (void *)r,
                                                          .place = &r->user[0]});
}

static void remove_one(void *self, const struct lls_request *r)
{
  lls_pol_heap_remove(&((struct lls_pol_ranked *)self)->heap, (uint32_t)r->user[0] - 1);
}

static void clear(void *self)
{
  lls_pol_heap_clear(&((struct lls_pol_ranked *)self)->heap);
}

static bool has(void *self, const struct lls_request *r)
{
  const struct lls_pol_heap *heap = &((const struct lls_pol_ranked *)self)->heap;
  return r->user[0] <= heap->n && heap->entries[r->user[0] - 1].item == r;
}

static const struct lls_pol_backlog_container container = {insert, remove_one, clear,
                                                           has};

int lls_pol_ranked_init(struct lls_pol_ranked *k, struct lls_pol_scheduler *scheduler,
                        lls_pol_ranked_key *key)
{
  k->key = key;
  k->scheduler = scheduler;
  int rc = lls_pol_backlog_init(&k->backlog, scheduler, &container, k);
  return rc < 0 ? rc : lls_pol_heap_init(&k->heap, scheduler->host->engine->max_requests);
}

void lls_pol_ranked_free(struct lls_pol_ranked *k)
{
  lls_pol_backlog_free(&k->backlog);
  lls_pol_heap_free(&k->heap);
}

const struct lls_request *lls_pol_ranked_pop(struct lls_pol_ranked *k)
{
  while (k->heap.n > 0) {
    const struct lls_request *r = k->heap.entries[0].item;
    if (lls_pol_backlog_take(&k->backlog, r))
      return r;
  }
  return NULL;
}

void lls_pol_ranked_dump(const struct lls_pol_ranked *k, const struct lls_sink *sink)
{
  struct lls_pol_heap copy;
  if (lls_pol_heap_init(&copy, k->heap.n) < 0)
    return;
  for (copy.n = 0; copy.n < k->heap.n; copy.n++) {
    copy.entries[copy.n] = k->heap.entries[copy.n];
    copy.entries[copy.n].place = NULL;
  }
  while (copy.n > 0) {
    struct lls_pol_heap_entry e = lls_pol_heap_pop(&copy);
    char line[80];
    snprintf(line, sizeof line, "request %" PRIu64 " key %" PRId64, e.tie, e.key);
    sink->text(sink->context, line);
  }
  lls_pol_heap_free(&copy);
}
