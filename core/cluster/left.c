/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that have left, between the tiers of the instance that still has their blocks:
 * what their new instance plans with OFFLOAD and UPLOAD of an offer. So a decode instance
 * can keep its pool in the host memory of the one that prefills, and have the next batch
 * brought to that one's device before it takes it over.
 *
 * Who may touch such a request's blocks is said by one word, lls_left.place:
 *
 *   HERE, HOST  they lie still, on the device or the host of the source. The instance
 *               that has the offer alone may change that: it takes them over, or asks.
 *   MOVING      it has asked. The source alone goes on: it starts the transfer, as soon
 *               as there is room if it is an upload, and writes the word when it is over.
 *
 * So neither waits for the other and nothing is locked. A request may end, or come back,
 * while it is MOVING: then it is dropped from the list of what shifts, and the manager is
 * told as of any other that ends while it moves.
 *
 * The source's lists of blocks are copied here when they have changed, since the request
 * may end on the other side meanwhile and has no room for them that lasts.
 */
#include "core/cluster/left.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"

/* ---- memory ----------------------------------------------------------------------- */

int lls_left_init(struct lls_instance *in, uint32_t max_requests)
{
  LLS_ON_STEP(in);
  struct lls_migration *h = &in->migration;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  h->max_entries = 2 * (in->caps.max_context / pool->block_tokens + 2);
  h->shelf = calloc(in->table->slots, sizeof *h->shelf);
  h->shifting = calloc(max_requests, sizeof *h->shifting);
  if (pool->host_units > 0) /* room that nobody uses costs address space only */
    h->entries = calloc((size_t)in->table->slots * h->max_entries, sizeof *h->entries);
  bool all = h->shelf != NULL && h->shifting != NULL &&
             (pool->host_units == 0 || h->entries != NULL);
  return all ? 0 : -ENOMEM;
}

int lls_left_init_remote(struct lls_instance *in, const struct lls_instance *like,
                         uint32_t slots)
{
  struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  h->max_entries = like->migration.max_entries;
  h->shelf = calloc(slots, sizeof *h->shelf);
  if (like->migration.entries != NULL)
    h->entries = calloc((size_t)slots * h->max_entries, sizeof *h->entries);
  return h->shelf != NULL && (h->entries != NULL || like->migration.entries == NULL)
             ? 0
             : -ENOMEM;
}

void lls_left_fini(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  free(in->migration.shelf);
  free(in->migration.shifting);
  free(in->migration.entries);
}

/* Copies its lists one behind the other, which are its lists then. */
static void copy_table(struct lls_block_table *t, struct lls_block_entry *to)
{
  const struct lls_block_entry **const lists[] = {&t->k, &t->v, &t->x};
  const uint32_t n[] = {t->k_count, t->v_count, t->x_count};
  for (uint32_t l = 0; l < 3; to += n[l], l++) {
    for (uint32_t i = 0; i < n[l]; i++)
      to[i] = (*lists[l])[i];
    *lists[l] = to;
  }
}

/* ---- at the source ---------------------------------------------------------------- */

void lls_left_put(struct lls_instance *in, uint32_t slot, uint32_t target)
{
  struct lls_left *left = &in->migration.shelf[slot];
  LLS_ON_STEP(in);
  left->target = target;
  left->started = left->shifted = false;
  left->since_ns = lls_instance_now(in);
  atomic_store(&left->place, LLS_LEFT_HERE);
}

bool lls_left_drop(struct lls_instance *in, uint32_t slot)
{
  struct lls_migration *h = &in->migration;
  uint32_t n = 0;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < h->n_shifting; i++)
    if (h->shifting[i] != slot)
      h->shifting[n++] = h->shifting[i];
  h->n_shifting = n;
  return h->shelf[slot].started;
}

void lls_left_receive(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->content.n_shifts; i++) {
    const struct lls_shift *shift = &in->content.shifts[i];
    if (h->left[shift->slot].id != shift->request)
      continue; /* it has ended meanwhile */
    h->shelf[shift->slot].to_host = shift->to_host;
    h->shifting[h->n_shifting++] = shift->slot;
  }
}

/* To another process, which cannot read the word: that, and the lists. */
static void send_place(struct lls_instance *in, const struct lls_left *left,
                       uint32_t place)
{
  uint32_t slot = (uint32_t)(left - in->migration.shelf);
  const struct lls_block_table *t = &left->blocks;
  struct lls_pack p = {0};
  LLS_PACK(&p, place);
  LLS_PACK(&p, left->shifted);
  LLS_PACK(&p, *t);
  if (left->shifted) {
    lls_pack_put(&p, t->k, t->k_count * sizeof *t->k);
    lls_pack_put(&p, t->v, t->v_count * sizeof *t->v);
    lls_pack_put(&p, t->x, t->x_count * sizeof *t->x);
  }
  if (p.failed) { /* it looks as if it moved for ever, until it ends */
    free(p.data);
    return;
  }
  lls_inbox_placed(
      in->peers[left->target]->inbox,
      &(struct lls_placed_there){.data = p.data, .bytes = p.n, .slot = slot});
}

static void write_place(struct lls_instance *in, struct lls_left *left, uint32_t place)
{
  left->started = false;
  left->since_ns = lls_instance_now(in);
  if (in->peers[left->target]->far)
    send_place(in, left, place);
  atomic_store(&left->place, place);
}

/* An upload waits for room; what else is refused stays where it is. */
static bool start(struct lls_instance *in, uint32_t slot)
{
  struct lls_policies *p = &in->policies;
  struct lls_left *left = &in->migration.shelf[slot];
  const struct lls_request *v = &in->migration.left[slot];
  int rc = -ENOTSUP;
  if (in->caps.async_transfers) {
    uint32_t mark = LLS_CALL(p, cache, mark);
    rc = left->to_host ? LLS_CALL(p, cache, offload, v, &left->transfer)
                       : LLS_CALL(p, cache, upload, v, &left->transfer);
    if (rc < 0)
      LLS_CALL(p, cache, rollback, mark);
  }
  left->started = rc == 0;
  if (rc == 0 || (rc == -ENOSPC && !left->to_host))
    return true;
  write_place(in, left, left->to_host ? LLS_LEFT_HERE : LLS_LEFT_HOST);
  return false;
}

void lls_left_place(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  uint32_t n = 0;
  LLS_ON_STEP(in);
  LLS_CHECK(in->transaction.open);
  for (uint32_t i = 0; i < h->n_shifting; i++)
    if (h->shelf[h->shifting[i]].started || start(in, h->shifting[i]))
      h->shifting[n++] = h->shifting[i];
  h->n_shifting = n;
}

/* Where its blocks are now, for those who will copy them. Without a list it can't be
 * copied, and its form is none. */
static void keep_table(struct lls_instance *in, uint32_t slot)
{
  struct lls_migration *h = &in->migration;
  struct lls_left *left = &h->shelf[slot];
  struct lls_block_table *t = &left->blocks;
  struct lls_block_entry *to = h->entries + (size_t)slot * h->max_entries;
  int rc = lls_cache_table(in, &h->left[slot], t);
  uint64_t n = (uint64_t)t->k_count + t->v_count + t->x_count;
  left->shifted = true;
  if (rc < 0 || n > h->max_entries) {
    *t = (struct lls_block_table){0};
    return;
  }
  copy_table(t, to);
}

static bool has_arrived(struct lls_instance *in, uint32_t slot)
{
  struct lls_policies *p = &in->policies;
  struct lls_left *left = &in->migration.shelf[slot];
  struct lls_cache_info info;
  if (!left->started)
    return false;
  LLS_CALL(p, cache, on_transfer, left->transfer);
  int rc = lls_cache_info(in, &in->migration.left[slot], &info);
  if (rc == 0 && info.residency == LLS_RESIDENT_MOVING)
    return false;
  bool on_host = rc == 0 && info.residency == LLS_RESIDENT_HOST;
  if (!on_host)
    keep_table(in, slot);
  write_place(in, left, on_host ? LLS_LEFT_HOST : LLS_LEFT_HERE);
  return true;
}

void lls_left_ended(struct lls_instance *in)
{
  struct lls_migration *h = &in->migration;
  uint32_t n = 0;
  LLS_ON_STEP(in);
  LLS_CHECK(!in->transaction.open);
  for (uint32_t i = 0; i < h->n_shifting; i++)
    if (!has_arrived(in, h->shifting[i]))
      h->shifting[n++] = h->shifting[i];
  h->n_shifting = n;
}

bool lls_left_moves(const struct lls_instance *in)
{
  const struct lls_migration *h = &in->migration;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < h->n_shifting; i++)
    if (h->shelf[h->shifting[i]].started)
      return true;
  return false;
}

void lls_left_receive_place(struct lls_instance *in, struct lls_unpack *u, uint32_t slot)
{
  struct lls_migration *h = &in->migration;
  struct lls_left *left = &h->shelf[slot];
  struct lls_block_table t;
  uint32_t place = LLS_LEFT_HERE;
  bool shifted = false;
  LLS_UNPACK(u, place);
  LLS_UNPACK(u, shifted);
  LLS_UNPACK(u, t);
  uint64_t n = u->failed ? 0 : (uint64_t)t.k_count + t.v_count + t.x_count;
  const void *entries = shifted ? lls_unpack_bytes(u, n * sizeof *h->entries) : NULL;
  if (u->failed || atomic_load(&left->place) != LLS_LEFT_MOVING)
    return; /* it has ended, and another may have its slot */
  if (shifted && n <= h->max_entries && h->entries != NULL) {
    struct lls_block_entry *to = h->entries + (size_t)slot * h->max_entries;
    memcpy(to, entries, n * sizeof *to);
    t.k = to;
    t.v = to + t.k_count;
    t.x = to + t.k_count + t.v_count;
    left->blocks = t;
    left->shifted = true;
  }
  atomic_store(&left->place, place);
}

/* ---- where it is offered ----------------------------------------------------------- */

static struct lls_left *left_of(const struct lls_instance *in,
                                const struct lls_live *live)
{
  return &in->peers[live->move.source]->migration.shelf[live->view.slot];
}

/* By this instance's clock, which in a simulation is not the source's. */
static uint32_t residency_of(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_left *left = left_of(in, live);
  uint32_t place = atomic_load(&left->place);
  if (place == LLS_LEFT_MOVING || left->since_ns > lls_instance_now(in))
    return LLS_RESIDENT_MOVING;
  return place == LLS_LEFT_HERE ? LLS_RESIDENT_DEVICE : LLS_RESIDENT_HOST;
}

void lls_left_look(struct lls_instance *in)
{
  const struct lls_request_list *offered = &in->migration.offered;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < offered->n; i++) {
    struct lls_live *live = lls_live_of(offered->items[i]);
    live->view.residency = residency_of(in, live);
  }
}

void lls_left_ask(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->plan.n_items; i++) {
    const struct lls_plan_item *item = &in->plan.items[i];
    struct lls_live *live = lls_request_table_find(in->table, item->request);
    if ((item->kind != LLS_PLAN_OFFLOAD && item->kind != LLS_PLAN_UPLOAD) ||
        live == NULL || !live->move.offered)
      continue;
    atomic_store(&left_of(in, live)->place, LLS_LEFT_MOVING);
    live->view.residency = LLS_RESIDENT_MOVING;
    lls_inbox_shift(in->peers[live->move.source]->inbox,
                    &(struct lls_shift){.request = live->view.id,
                                        .slot = live->view.slot,
                                        .to_host = item->kind == LLS_PLAN_OFFLOAD,
                                        .mailed_ns = lls_instance_now(in)});
  }
}

bool lls_left_find(struct lls_instance *in, struct lls_live *live)
{
  const struct lls_left *left = left_of(in, live);
  struct lls_move *m = &live->move;
  LLS_ON_STEP(in);
  if (!left->shifted)
    return true;
  m->blocks = left->blocks;
  const struct lls_block_table *t = &m->blocks;
  if (t->form == LLS_FORM_NONE ||
      (uint64_t)t->k_count + t->v_count + t->x_count > m->max_entries)
    return false;
  copy_table(&m->blocks, m->entries);
  return true;
}
