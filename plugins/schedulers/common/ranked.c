/* SPDX-License-Identifier: Apache-2.0 */
/* See ranked.h. */
#include "ranked.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static void insert(void *self, const struct lls_request *r)
{
  struct ranked *k = self;
  heap_push(&k->heap, (struct heap_entry){.key = k->key(k->scheduler, r),
                                          .tie = r->id,
                                          .item = (void *)r,
                                          .place = &r->user[0]});
}

static void remove_one(void *self, const struct lls_request *r)
{
  heap_remove(&((struct ranked *)self)->heap, (uint32_t)r->user[0] - 1);
}

static void clear(void *self)
{
  heap_clear(&((struct ranked *)self)->heap);
}

static const struct backlog_container container = {insert, remove_one, clear};

int ranked_init(struct ranked *k, struct scheduler *scheduler, ranked_key *key)
{
  k->key = key;
  k->scheduler = scheduler;
  int rc = backlog_init(&k->backlog, scheduler, &container, k);
  return rc < 0 ? rc : heap_init(&k->heap, scheduler->host->engine->max_requests);
}

void ranked_free(struct ranked *k)
{
  backlog_free(&k->backlog);
  heap_free(&k->heap);
}

const struct lls_request *ranked_first(struct ranked *k, int64_t *key)
{
  if (k->heap.n == 0)
    return NULL;
  *key = k->heap.entries[0].key;
  return k->heap.entries[0].item;
}

const struct lls_request *ranked_pop(struct ranked *k)
{
  while (k->heap.n > 0) {
    const struct lls_request *r = k->heap.entries[0].item;
    if (backlog_take(&k->backlog, r))
      return r;
  }
  return NULL;
}

void ranked_dump(const struct ranked *k, const struct lls_sink *sink)
{
  struct heap copy;
  if (heap_init(&copy, k->heap.n) < 0)
    return;
  for (copy.n = 0; copy.n < k->heap.n; copy.n++) {
    copy.entries[copy.n] = k->heap.entries[copy.n];
    copy.entries[copy.n].place = NULL;
  }
  while (copy.n > 0) {
    struct heap_entry e = heap_pop(&copy);
    char line[80];
    snprintf(line, sizeof line, "request %" PRIu64 " key %" PRId64, e.tie, e.key);
    sink->text(sink->context, line);
  }
  heap_free(&copy);
}
