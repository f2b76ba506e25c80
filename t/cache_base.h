/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common parts of test fixtures that are cache managers, so that each shows its idea
 * alone: the descriptor, the names of a vtable's functions, a transaction that is a
 * journal of words, and answers of a manager that copies nothing. A state that begins
 * with a struct base is handed to the base_ functions as it is.
 */
#ifndef LLS_T_CACHE_BASE_H
#define LLS_T_CACHE_BASE_H

#include <llmserve/cache.h>
#include <llmserve/policy/journal.h>

#include <errno.h>
#include <stdlib.h>

struct base {
  struct lls_pol_journal journal;
  uint32_t units; /* of a block of group 0 */
  uint32_t block_tokens, n_slots;
};

/* -ENOMEM; the journal has room for that many changes of a step. */
static inline int base_open(struct base *b, const struct lls_host *host,
                            const struct lls_cache_geometry *g, uint32_t changes)
{
  b->units = host->engine->groups[0]->forms[0].block_units;
  b->block_tokens = g->block_tokens;
  b->n_slots = host->engine->max_requests;
  b->journal.max = changes;
  b->journal.changes = calloc(changes, sizeof *b->journal.changes);
  return b->journal.changes != NULL ? 0 : -ENOMEM;
}

static inline void base_close(struct base *b)
{
  free(b->journal.changes);
}

/* ---- a transaction ---------------------------------------------------------------- */

static inline void base_set(void *self, uint32_t *word, uint32_t value)
{
  lls_pol_journal_set(&((struct base *)self)->journal, word, value);
}

static inline bool base_has_room(const void *self, uint64_t changes)
{
  return lls_pol_journal_has_room(&((const struct base *)self)->journal, changes);
}

static inline int base_begin(void *self)
{
  return lls_pol_journal_begin(&((struct base *)self)->journal);
}

static inline uint32_t base_mark(void *self)
{
  return ((struct base *)self)->journal.n;
}

static inline int base_rollback(void *self, uint32_t to)
{
  return lls_pol_journal_rollback(&((struct base *)self)->journal, to);
}

static inline int base_commit(void *self)
{
  return lls_pol_journal_commit(&((struct base *)self)->journal);
}

/* ---- blocks of one size ----------------------------------------------------------- */

static inline uint32_t base_blocks(const struct base *b, uint32_t tokens)
{
  return (tokens + b->block_tokens - 1) / b->block_tokens;
}

/* The i-th entry of a list: a block that begins with this unit. */
static inline struct lls_block_entry base_entry(const struct base *b, uint32_t i,
                                                uint32_t unit)
{
  return (struct lls_block_entry){.block = unit,
                                  .first_token = i * b->block_tokens,
                                  .count = (uint16_t)b->block_tokens};
}

/* A table of one group, with `list` as storage. */
static inline struct lls_block_table
base_table(struct lls_group_list *list, const struct lls_block_entry *entries, uint32_t n)
{
  *list = (struct lls_group_list){.entries = entries, .n_entries = n};
  return (struct lls_block_table){.n_groups = 1, .lists = list};
}

/* ---- answers ---------------------------------------------------------------------- */

static inline size_t base_no_copies(void *self, const struct lls_copy **out)
{
  (void)self;
  *out = NULL;
  return 0;
}

static inline uint32_t base_no_swap(void *self)
{
  (void)self;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER;
}

static const struct lls_cache_caps base_caps = {
    .size = sizeof base_caps,
    .kinds = 1u << LLS_GROUP_FULL,
    .forms = 1u << LLS_FORM_KV,
};

/* ---- a vtable --------------------------------------------------------------------- */

/* Functions that each manager has of its own, by these names; besides them create,
 * release and table, which a mutant may have in its own way. */
#define BASE_OWN                                                                         \
  .api_version = LLS_API_VERSION, .size = sizeof(struct lls_cache_vtable),               \
  .destroy = destroy, .capacity = capacity, .need = need, .reserve = reserve,            \
  .preempt = preempt, .admit = admit, .info = info, .computed = computed, .audit = audit

#define BASE_TRANSACTION                                                                 \
  .begin = base_begin, .mark = base_mark, .rollback = base_rollback, .commit = base_commit

/* One group, blocks in KV form on the device alone. */
#define BASE_PLAIN                                                                       \
  .caps = &base_caps, .copies = base_no_copies, .preempt_modes = base_no_swap

/* The descriptor; behind the vtable LLS_PLUGIN_PARAMS where there are parameters. */
#define BASE_PLUGIN(ID, DESCRIPTION, ...)                                                \
  LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {                          \
      .api_version = LLS_API_VERSION,                                                    \
      .size = sizeof llmserve_plugin,                                                    \
      .kind = LLS_KIND_CACHE,                                                            \
      .id = ID,                                                                          \
      .version = "1.0",                                                                  \
      .description = "test fixture: " DESCRIPTION,                                       \
      .licence = "Apache-2.0",                                                           \
      .vtable = __VA_ARGS__,                                                             \
  }

#endif
