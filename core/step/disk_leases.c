/* SPDX-License-Identifier: Apache-2.0 */
/* See disk_leases.h. */
#include "core/step/disk_leases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NIL  UINT32_MAX
#define ROOM (LLS_IDLE_SESSIONS + 1)

/* Holds for each block that leases may have: of agents that begin alike, each holds the
 * blocks of their beginning. */
#define HOLDS 2u

int lls_disk_leases_init(struct lls_disk_leases *l, struct lls_block_store *store,
                         uint32_t most)
{
  *l = (struct lls_disk_leases){.store = store,
                                .most = most,
                                .holds_left = HOLDS * most,
                                .free_lease = NIL,
                                .free_hold = NIL,
                                .soonest_ns = INT64_MAX};
  l->leases = calloc(ROOM, sizeof *l->leases);
  l->holds = calloc((size_t)HOLDS * most + 1, sizeof *l->holds);
  l->buckets = malloc(LLS_SESSION_BUCKETS * sizeof *l->buckets);
  if (l->leases == NULL || l->holds == NULL || l->buckets == NULL)
    return -ENOMEM;
  memset(l->buckets, 0xff, LLS_SESSION_BUCKETS * sizeof *l->buckets);
  for (uint32_t i = ROOM; i-- > 0; l->free_lease = i)
    l->leases[i].next = l->free_lease;
  for (uint32_t i = HOLDS * most; i-- > 0; l->free_hold = i)
    l->holds[i].next = l->free_hold;
  return 0;
}

void lls_disk_leases_free(struct lls_disk_leases *l)
{
  free(l->leases);
  free(l->holds);
  free(l->buckets);
  *l = (struct lls_disk_leases){0};
}

/* Returns the link to the session's lease, or to the end of its bucket. */
static uint32_t *link_to(struct lls_disk_leases *l, uint64_t session)
{
  uint32_t *at = &l->buckets[session & (LLS_SESSION_BUCKETS - 1)];
  while (*at != NIL && l->leases[*at].session != session)
    at = &l->leases[*at].next;
  return at;
}

/* Gives the holds from `first` on back. */
static void let_go(struct lls_disk_leases *l, uint32_t first)
{
  while (first != NIL) {
    struct lls_disk_hold *h = &l->holds[first];
    uint32_t next = h->next;
    lls_block_store_let_go(l->store, &h->block);
    h->next = l->free_hold;
    l->free_hold = first;
    l->holds_left++;
    first = next;
  }
}

void lls_disk_leases_end(struct lls_disk_leases *l, uint64_t session)
{
  uint32_t *link = link_to(l, session), at = *link;
  if (at == NIL)
    return;
  struct lls_disk_lease *lease = &l->leases[at];
  let_go(l, lease->first);
  l->blocks[lease->tenant] -= lease->blocks;
  *link = lease->next;
  *lease = (struct lls_disk_lease){.next = l->free_lease};
  l->free_lease = at;
  l->n--;
}

void lls_disk_leases_expire(struct lls_disk_leases *l, int64_t now_ns)
{
  if (l->n == 0 || now_ns < l->soonest_ns)
    return;
  l->soonest_ns = INT64_MAX;
  for (uint32_t i = 0; i < ROOM; i++) {
    const struct lls_disk_lease *lease = &l->leases[i];
    if (lease->session == 0)
      continue;
    if (lease->until_ns <= now_ns)
      lls_disk_leases_end(l, lease->session);
    else if (lease->until_ns < l->soonest_ns)
      l->soonest_ns = lease->until_ns;
  }
}

/* Holds the blocks, and returns the first hold of the chain, or NIL: there is no room. */
static uint32_t hold_all(struct lls_disk_leases *l, const struct lls_key *keys,
                         uint32_t n)
{
  uint32_t first = NIL, held = 0;
  for (; held < n && l->free_hold != NIL; held++) {
    uint32_t at = l->free_hold;
    struct lls_disk_hold *h = &l->holds[at];
    if (!lls_block_store_hold(l->store, &keys[held], &h->block))
      break;
    l->free_hold = h->next;
    l->holds_left--;
    h->next = first;
    first = at;
  }
  if (held == n && lls_block_store_held(l->store) <= l->most)
    return first;
  let_go(l, first);
  return NIL;
}

/* Ends the oldest lease of the tenant that has the most blocks, if it has more than
 * `most`. Returns false if none does. */
static bool make_room(struct lls_disk_leases *l, uint64_t most)
{
  const struct lls_disk_lease *victim = NULL;
  uint32_t tenant = NIL;
  for (uint32_t i = 0; i < LLS_SESSION_TENANTS; i++)
    if (l->blocks[i] > most) {
      most = l->blocks[i];
      tenant = i;
    }
  for (uint32_t i = 0; i < ROOM && tenant != NIL; i++)
    if (l->leases[i].session != 0 && l->leases[i].tenant == tenant &&
        (victim == NULL || l->leases[i].number < victim->number))
      victim = &l->leases[i];
  if (victim != NULL)
    lls_disk_leases_end(l, victim->session);
  return victim != NULL;
}

int lls_disk_leases_take(struct lls_disk_leases *l, const struct lls_session *s,
                         uint32_t n_keys, int64_t until_ns)
{
  uint32_t tenant = s->tenant % LLS_SESSION_TENANTS, first;
  lls_disk_leases_end(l, s->id);
  if (n_keys > l->most || l->free_lease == NIL)
    return -ENOSPC;
  do
    first = hold_all(l, s->keys, n_keys);
  while (first == NIL && make_room(l, l->blocks[tenant] + n_keys));
  if (first == NIL)
    return -ENOSPC;
  uint32_t at = l->free_lease;
  l->free_lease = l->leases[at].next;
  uint32_t *bucket = &l->buckets[s->id & (LLS_SESSION_BUCKETS - 1)];
  l->leases[at] = (struct lls_disk_lease){.session = s->id,
                                          .number = ++l->last,
                                          .until_ns = until_ns,
                                          .tenant = tenant,
                                          .blocks = n_keys,
                                          .first = first,
                                          .next = *bucket};
  *bucket = at;
  l->blocks[tenant] += n_keys;
  l->n++;
  l->soonest_ns = until_ns < l->soonest_ns ? until_ns : l->soonest_ns;
  return 0;
}
