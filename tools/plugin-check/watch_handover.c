/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that move from one instance to another. The core copies their blocks without
 * calling a cache manager, so the shadow copies them here: the slots in the table when
 * the request left must be unchanged when the other instance has taken it over.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/watch.h"

void watch_keep_table(struct witness *w, const struct lls_request *r,
                      const struct lls_block_table *t)
{
  struct left_behind *l = &w->placed[r->slot].left_behind;
  size_t n = (size_t)t->k_count + t->v_count;
  struct lls_block_entry *entries = realloc(l->entries, (n + 1) * sizeof *entries);
  if (entries == NULL)
    abort();
  if (t->k_count > 0)
    memcpy(entries, t->k, t->k_count * sizeof *entries);
  if (t->v_count > 0)
    memcpy(entries + t->k_count, t->v, t->v_count * sizeof *entries);
  *l = (struct left_behind){r->id, r->cached_tokens, *t, entries};
  l->table.k = entries;
  l->table.v = entries + t->k_count;
}

/* Returns the watched instance that r comes from; NULL: none. */
static const struct witness *source_of(const struct witness *w,
                                       const struct lls_request *r)
{
  for (const struct witness *o = w->watch->caches; o != NULL; o = o->next) {
    const struct left_behind *l = &o->placed[r->slot].left_behind;
    if (o != w && l->entries != NULL && l->request == r->id &&
        l->tokens == r->cached_tokens)
      return o;
  }
  return NULL;
}

void watch_found_gone(struct witness *w, const struct lls_request *r, uint32_t token,
                      const char *list)
{
  found(w->watch->findings,
        "request %" PRIu64
        " was handed over with %u tokens, and token %u is gone from its "
        "%s list before release: its blocks stay as they are until then",
        r->id, r->cached_tokens, token, list);
}

void watch_taken_over(struct witness *w, const struct lls_request *r)
{
  const struct witness *source = source_of(w, r);
  const char *list = "";
  if (source == NULL)
    return;
  uint32_t at =
      shadow_verify(&source->memory->shadow, &source->placed[r->slot].left_behind.table,
                    r, w->core->engine->window_tokens, r->cached_tokens, &list);
  if (at < r->cached_tokens)
    watch_found_gone(w, r, at, list);
  shadow_write(&w->memory->shadow, &w->placed[r->slot].table, r, 0, r->cached_tokens);
  w->watch->n_handed_over++;
}
