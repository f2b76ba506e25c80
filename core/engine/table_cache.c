/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next step's tables are nearly those of the step before: a decode adds a token to
 * the last block, or a block. So checked copies of them are kept in the pinned memory
 * that the device reads, and the next step's tables are compared with the copies:
 * memcmp over all but a list's last entry, then only the entries from there on are
 * checked and copied. A list that has changed, or belongs to a new sequence, is checked
 * and copied whole.
 *
 * Correctness does not depend on a guess. The cache only guesses which kept sequence to
 * compare with (by the address and the order of the lists); a list that differs is
 * treated as new.
 *
 * This saves time on the host's critical path, between the results of a step and the
 * launch of the next: with 256 sequences of 2,048 tokens (65,536 entries) half of it
 * (bench/gap; experiments/results/gap-2026-11-22.md).
 *
 * The previous step, and so its copy to the device, has ended when this step's lists
 * are written, so one arena is enough. Lists have spare room to grow. The lists of
 * ended sequences stay as garbage; once garbage is half of the arena, all lists are
 * laid out again.
 */
#include "core/engine/table_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/engine_internal.h"

#define LEAST_ROOM 4096 /* entries of the smallest arena */
#define LOOKS      16   /* visits of kept sequences in a step, times n_before */

static size_t room_for(uint32_t n)
{
  return n + n / 8 + 8;
}

int lls_table_cache_init(struct lls_engine *e)
{
  struct lls_table_cache *k = &e->table_cache;
  size_t n = e->options.max_sequences;
  if (!e->device->asynchronous || e->model.encoder)
    return 0;
  k->before = calloc(n, sizeof *k->before);
  k->now = calloc(n, sizeof *k->now);
  void *arena = NULL;
  int rc = e->device->ops->alloc(e->device, LLS_MEMORY_PINNED,
                                 LEAST_ROOM * sizeof *k->arena, &arena);
  k->arena = arena;
  k->room = LEAST_ROOM;
  return rc == 0 && k->before != NULL && k->now != NULL ? 0 : -ENOMEM;
}

void lls_table_cache_free(struct lls_engine *e)
{
  struct lls_table_cache *k = &e->table_cache;
  if (k->arena != NULL)
    e->device->ops->release(e->device, LLS_MEMORY_PINNED, k->arena);
  free(k->before);
  free(k->now);
}

void lls_table_cache_forget(struct lls_engine *e)
{
  e->table_cache.n_before = e->table_cache.n_now = 0;
  e->table_cache.used = e->table_cache.live = 0;
}

/* ---- room -------------------------------------------------------------------------- */

static int make_room(struct lls_engine *e, size_t wanted)
{
  struct lls_table_cache *k = &e->table_cache;
  void *larger;
  if (wanted <= k->room)
    return 0;
  if (e->device->ops->alloc(e->device, LLS_MEMORY_PINNED, 2 * wanted * sizeof *k->arena,
                            &larger) < 0)
    return -ENOMEM;
  memcpy(larger, k->arena, k->used * sizeof *k->arena);
  e->device->ops->release(e->device, LLS_MEMORY_PINNED, k->arena);
  k->arena = larger;
  k->room = 2 * wanted;
  return 0;
}

static int move(struct lls_engine *e, struct lls_table_cache_list *list, uint32_t n,
                struct lls_error *err)
{
  struct lls_table_cache *k = &e->table_cache;
  size_t room = room_for(n);
  if (make_room(e, k->used + room) < 0)
    return lls_fail(err, -ENOMEM, "no memory for block tables of %zu entries",
                    k->used + room);
  k->live += room - list->room;
  *list = (struct lls_table_cache_list){
      .first = (uint32_t)k->used, .room = (uint32_t)room, .tidy_before = true};
  k->used += room;
  LLS_CHECK(k->used <= k->room);
  return 0;
}

/* ---- whose lists ------------------------------------------------------------------- */

void lls_table_cache_begin(struct lls_engine *e)
{
  struct lls_table_cache *k = &e->table_cache;
  if (k->used > 2 * k->live + LEAST_ROOM)
    lls_table_cache_forget(e);
  k->n_now = k->next = 0;
  k->looks = LOOKS * k->n_before;
  k->live = 0;
}

/* Returns the kept sequence to compare with, or NULL. A search first looks at `next`,
 * which costs nothing of `looks`. Without this limit a step in which no search
 * succeeds, as when a manager has moved its lists, would take n^2 looks. */
static struct lls_table_cache_sequence *candidate(struct lls_table_cache *k,
                                                  const void *hint)
{
  uint32_t i = 0, most = k->looks < k->n_before ? k->looks + 1 : k->n_before;
  for (uint32_t at = k->next; i < most; i++, at++) {
    at = at < k->n_before ? at : 0;
    if (k->before[at].hint == hint && !k->before[at].taken) {
      k->looks -= i;
      k->next = at;
      return &k->before[at];
    }
  }
  k->looks -= i < k->looks ? i : k->looks;
  bool free = k->next < k->n_before && !k->before[k->next].taken;
  return free ? &k->before[k->next] : NULL;
}

void lls_table_cache_next(struct lls_engine *e, const struct lls_group_list *list)
{
  struct lls_table_cache *k = &e->table_cache;
  const void *hint = list->entries;
  LLS_CHECK(k->n_now < e->options.max_sequences);
  struct lls_table_cache_sequence *found = candidate(k, hint), *s = &k->now[k->n_now++];
  *s = (struct lls_table_cache_sequence){0};
  LLS_CHECK(found == NULL || !found->taken); /* a kept sequence serves one new sequence */
  if (found != NULL) {
    *s = *found;
    found->taken = true;
    k->next++;
  }
  s->hint = hint;
  s->taken = false;
}

/* ---- lists ------------------------------------------------------------------------- */

static bool is_tidy(const struct lls_block_entry *list, uint32_t begin, uint32_t end,
                    uint32_t block_tokens)
{
  uint32_t first_token = lls_list_begin(list, end);
  bool tidy = true;
  for (uint32_t i = begin; i < end; i++)
    tidy &= list[i].first_token == first_token + i * block_tokens &&
            list[i].direction == LLS_LEFT_TO_RIGHT;
  return tidy;
}

/* True if the list equals the kept copy and covers `needed` tokens, which is the usual
 * case in decode. */
static bool is_same(const struct lls_engine *e, const struct lls_table_cache_list *kept,
                    const struct lls_block_entry *list, uint32_t n, uint32_t needed)
{
  return n > 0 && n == kept->n && list[n - 1].first_token + list[n - 1].count >= needed &&
         memcmp(e->table_cache.arena + kept->first, list, n * sizeof *list) == 0;
}

/* Returns how many leading entries equal the kept copy: all but its last entry, or 0. */
static uint32_t unchanged(const struct lls_table_cache *k,
                          const struct lls_table_cache_list *kept,
                          const struct lls_block_entry *list, uint32_t n)
{
  if (kept->n == 0 || n < kept->n || n > kept->room)
    return 0;
  uint32_t same = kept->n - 1;
  return memcmp(k->arena + kept->first, list, same * sizeof *list) == 0 ? same : 0;
}

int lls_table_cache_put(struct lls_engine *e, uint32_t which,
                        const struct lls_block_entry *list, uint32_t n,
                        const struct lls_list_check *check, struct lls_error *err)
{
  struct lls_table_cache *k = &e->table_cache;
  struct lls_table_cache_list *kept = &k->now[k->n_now - 1].lists[which];
  /* the check depends on context, so equal lists are checked too */
  bool again = e->pool_shape.int8 == LLS_INT8_ALL;
  k->live += kept->room;
  if (!again && is_same(e, kept, list, n, check->needed))
    return 0;
  uint32_t same = unchanged(k, kept, list, n), block_tokens = e->pool_shape.block_tokens;
  struct lls_list_check rest = *check;
  rest.from = again ? 0 : same;
  int rc = lls_engine_check_entries(e, list, n, &rest, err);
  if (rc == 0 && same == 0)
    rc = n <= kept->room ? 0 : move(e, kept, n, err);
  if (rc < 0)
    return rc;
  LLS_CHECK(same <= n && n <= kept->room && kept->first + kept->room <= k->used);
  if (same == 0)
    kept->tidy_before = true;
  if (n > same)
    memcpy(k->arena + kept->first + same, list + same, (n - same) * sizeof *list);
  kept->n = n;
  kept->tidy_before &= n == 0 || is_tidy(list, same, n - 1, block_tokens);
  kept->tidy = kept->tidy_before && (n == 0 || is_tidy(list, n - 1, n, block_tokens));
  return 0;
}

/* ---- the step's -------------------------------------------------------------------- */

int lls_table_cache_end(struct lls_engine *e, const struct lls_engine_batch *batch,
                        struct lls_error *err)
{
  struct lls_table_cache *k = &e->table_cache;
  if (make_room(e, k->used + e->pool_shape.scratch_blocks) < 0)
    return lls_fail(err, -ENOMEM, "no memory for lists of %u restored blocks",
                    e->pool_shape.scratch_blocks);
  LLS_CHECK(k->n_now == batch->n_sequences && k->live <= k->used);
  k->scratch_at = k->used;
  struct lls_table_cache_sequence *now = k->before;
  k->before = k->now;
  k->now = now;
  k->n_before = k->n_now;
  return 0;
}

/* The kept copy of a list of the step; an empty list has none. */
static void point_to(const struct lls_table_cache *k,
                     const struct lls_table_cache_list *kept, struct lls_step_list *list)
{
  if (list->n == 0)
    return;
  list->entries = k->arena + kept->first;
  list->tidy = kept->tidy;
}

void lls_table_cache_lay_out(const struct lls_table_cache *k, uint32_t i, uint32_t group,
                             struct lls_step_sequence *s)
{
  const struct lls_table_cache_list *lists = k->before[i].lists;
  LLS_CHECK(i < k->n_before);
  if (group > 0) {
    point_to(k, &lists[LLS_TABLE_OTHERS + group - 1], &s->kv);
    return;
  }
  bool hidden = s->kv.n == 0; /* then its X are the table's entries */
  point_to(k, &lists[LLS_TABLE_ENTRIES], hidden ? &s->hidden : &s->kv);
  if (!hidden)
    point_to(k, &lists[LLS_TABLE_RESTORED], &s->hidden);
}
