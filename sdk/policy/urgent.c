/* SPDX-License-Identifier: Apache-2.0 */
/* See urgent.h. */
#include <llmserve/policy/check.h>
#include <llmserve/policy/urgent.h>

#include <errno.h>
#include <stdlib.h>

enum { NEAR = LLS_POL_URGENT, REFILL = 64 };

/* ---- one list ---------------------------------------------------------------------- */

static int list_init(struct lls_pol_urgent_list *l, uint32_t max_requests)
{
  *l = (struct lls_pol_urgent_list){
      .near = calloc(NEAR, sizeof *l->near),
      .keys = calloc(max_requests, sizeof *l->keys),
      .ids = calloc(max_requests, sizeof *l->ids),
      .places = calloc(max_requests, sizeof *l->places),
  };
  int rc = lls_pol_heap_init(&l->far, max_requests);
  return l->near != NULL && l->keys != NULL && l->ids != NULL && l->places != NULL
             ? rc
             : -ENOMEM;
}

static void list_free(struct lls_pol_urgent_list *l)
{
  lls_pol_heap_free(&l->far);
  free(l->near);
  free(l->keys);
  free(l->ids);
  free(l->places);
}

static bool is_before(int64_t key, uint64_t id, const struct lls_pol_urgent_entry *e)
{
  return key < e->key || (key == e->key && id < e->request->id);
}

/* Returns the index in `near` of the entry (key, id), or where it would be inserted. */
static uint32_t place_of(const struct lls_pol_urgent_list *l, int64_t key, uint64_t id)
{
  uint32_t low = 0, high = l->n_near;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const struct lls_pol_urgent_entry *e = &l->near[middle];
    if (is_before(key, id, e) || (key == e->key && id == e->request->id))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void put_far(struct lls_pol_urgent_list *l, const struct lls_pol_urgent_entry *e)
{
  const struct lls_request *r = e->request;
  lls_pol_heap_push(&l->far, (struct lls_pol_heap_entry){.key = e->key,
                                                         .tie = r->id,
                                                         .item = (void *)r,
                                                         .place = &l->places[r->slot]});
}

/* Moves the first entries of the heap to free places in `near`, at most REFILL in a call:
 * a thousand deadlines that pass at once would cost one plan 100 us. */
static void refill(struct lls_pol_urgent_list *l)
{
  for (uint32_t i = 0; i < REFILL && l->far.n > 0 && l->n_near < NEAR; i++) {
    struct lls_pol_heap_entry e = lls_pol_heap_pop(&l->far);
    l->near[l->n_near++] = (struct lls_pol_urgent_entry){.key = e.key, .request = e.item};
  }
}

static void list_add(struct lls_pol_urgent_list *l, const struct lls_request *r,
                     int64_t key)
{
  const struct lls_pol_urgent_entry e = {.key = key, .request = r};
  l->keys[r->slot] = key;
  l->ids[r->slot] = r->id + 1;
  uint32_t at = place_of(l, key, r->id);
  if (at == l->n_near && (at == NEAR || l->far.n > 0)) {
    put_far(l, &e);
    return;
  }
  if (l->n_near == NEAR)
    put_far(l, &l->near[--l->n_near]);
  for (uint32_t i = l->n_near++; i > at; i--)
    l->near[i] = l->near[i - 1];
  l->near[at] = e;
}

static void list_remove(struct lls_pol_urgent_list *l, const struct lls_request *r)
{
  if (l->ids[r->slot] != r->id + 1)
    return;
  l->ids[r->slot] = 0;
  if (l->places[r->slot] != 0) {
    lls_pol_heap_remove(&l->far, (uint32_t)l->places[r->slot] - 1);
    return;
  }
  uint32_t at = place_of(l, l->keys[r->slot], r->id);
  LLS_POL_CHECK(at < l->n_near && l->near[at].request == r);
  l->n_near--;
  for (uint32_t i = at; i < l->n_near; i++)
    l->near[i] = l->near[i + 1];
}

/* ---- both -------------------------------------------------------------------------- */

int lls_pol_urgent_init(struct lls_pol_urgent *u, uint32_t max_requests)
{
  *u = (struct lls_pol_urgent){.found = calloc(2 * NEAR, sizeof(void *))};
  int due = list_init(&u->due, max_requests), level = list_init(&u->level, max_requests);
  return u->found != NULL && due == 0 && level == 0 ? 0 : -ENOMEM;
}

void lls_pol_urgent_free(struct lls_pol_urgent *u)
{
  list_free(&u->due);
  list_free(&u->level);
  free(u->found);
}

void lls_pol_urgent_finished(struct lls_pol_urgent *u, const struct lls_request *r)
{
  list_remove(&u->due, r);
  list_remove(&u->level, r);
}

/* A request that returns from another instance is still listed: it is removed first. */
void lls_pol_urgent_arrived(struct lls_pol_urgent *u, const struct lls_request *r,
                            int64_t due_ns, int32_t level)
{
  lls_pol_urgent_finished(u, r);
  if (r->generated_tokens > 0)
    return;
  if (due_ns != LLS_NEVER && due_ns != INT64_MAX)
    list_add(&u->due, r, due_ns);
  if (level != LLS_POL_URGENT_ORDINARY)
    list_add(&u->level, r, level);
}

/* ---- a look ------------------------------------------------------------------------ */

struct look {
  int64_t due_ns; /* entries due before it are dropped; INT64_MIN: none */
  uint64_t after, before;
  /* a list whose near entries were found already; or NULL */
  const struct lls_pol_urgent_list *other;
};

static bool is_near(const struct lls_pol_urgent_list *l, const struct lls_request *r)
{
  return l != NULL && l->ids[r->slot] == r->id + 1 && l->places[r->slot] == 0;
}

/* Writes the waiting requests in l->near with ids between look->after and look->before to
 * `found`; returns how many. Drops entries that are overdue or have generated tokens; the
 * rest keep their order. */
static uint32_t find(struct lls_pol_urgent_list *l, const struct look *look,
                     const struct lls_request **found)
{
  uint32_t kept = 0, n = 0;
  refill(l);
  for (uint32_t i = 0; i < l->n_near; i++) {
    const struct lls_pol_urgent_entry e = l->near[i];
    const struct lls_request *r = e.request;
    if (i + 8 < l->n_near)
      __builtin_prefetch(&l->near[i + 8].request->state);
    if (e.key < look->due_ns || r->generated_tokens > 0) {
      l->ids[r->slot] = 0;
      continue;
    }
    l->near[kept++] = e;
    if (r->state == LLS_WAITING && r->id > look->after && r->id < look->before &&
        !is_near(look->other, r))
      found[n++] = r;
  }
  l->n_near = kept;
  return n;
}

uint32_t lls_pol_urgent_find(struct lls_pol_urgent *u, int64_t now_ns, uint64_t after,
                             uint64_t before)
{
  const struct look due = {.due_ns = now_ns, .after = after, .before = before};
  const struct look level = {
      .due_ns = INT64_MIN, .after = after, .before = before, .other = &u->due};
  uint32_t n = find(&u->due, &due, u->found);
  return n + find(&u->level, &level, u->found + n);
}
