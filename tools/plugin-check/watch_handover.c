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

void watch_keep_list(struct witness *w, const struct lls_request *r,
                     const struct lls_group_list *list)
{
  struct left_behind *l = &w->placed[r->slot].left_behind;
  struct lls_block_entry *entries =
      realloc(l->entries, (list->n_entries + (size_t)1) * sizeof *entries);
  if (entries == NULL)
    abort();
  if (list->n_entries > 0)
    memcpy(entries, list->entries, list->n_entries * sizeof *entries);
  *l = (struct left_behind){.request = r->id,
                            .tokens = r->cached_tokens,
                            .list = {.entries = entries, .n_entries = list->n_entries},
                            .entries = entries};
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
      shadow_verify(&source->memory->shadow, &source->placed[r->slot].left_behind.list, r,
                    w->core->engine->groups[0], r->cached_tokens, &list);
  if (at < r->cached_tokens)
    watch_found_gone(w, r, at, list);
  shadow_write(&w->memory->shadow, &w->placed[r->slot].list, r, 0, r->cached_tokens);
  w->watch->n_handed_over++;
}
