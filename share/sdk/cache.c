/*
 * example: blocks on demand and nothing else. A sequence has a list of blocks, each some
 * consecutive units; it takes one from the stack of free ones whenever its last one is
 * full, and gives all back at its end. No host tier, no sharing.
 *
 * A transaction changes words only, each through a journal of (word, old value): a
 * rollback restores the old values, the last one first, and stays exact when words are
 * added. To add sharing, add a count of holders for each block; to add a host tier, a
 * second stack and a word with the tier of each sequence.
 *
 * In a reload the next generation takes over which sequence holds which blocks, so that
 * none is prefilled again. It accepts the imported state if audit finds nothing wrong.
 */
#include <llmserve/cache.h>
#include <llmserve/policy/journal.h>
#include <llmserve/policy/report.h>
#include <llmserve/policy/state.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sequence {  /* by slot */
  uint32_t blocks; /* entries in use of its list */
  uint32_t cached; /* tokens */
};

struct pool { /* a state fits a pool with the same numbers */
  uint32_t block_tokens, block_units, per_list, n_slots, total;
};

struct state {
  const struct lls_host *host;
  struct pool pool;
  uint32_t n_free;
  struct sequence *sequences;      /* (n_slots) */
  uint32_t *free;                  /* (total) a stack of blocks */
  uint32_t *blocks;                /* (n_slots, per_list) */
  struct lls_block_entry *entries; /* (n_slots, per_list) what table shows */
  struct lls_group_list *lists;    /* (n_slots) of it */
  uint8_t *seen;                   /* (total) used by audit only */
  struct lls_pol_journal journal;
};

static uint32_t *blocks_of(const struct state *s, uint32_t slot)
{
  return s->blocks + (size_t)slot * s->pool.per_list;
}

static void set(struct state *s, uint32_t *word, uint32_t value)
{
  lls_pol_journal_set(&s->journal, word, value);
}

static void push_block(struct state *s, uint32_t slot)
{
  struct sequence *q = &s->sequences[slot];
  set(s, &s->n_free, s->n_free - 1);
  set(s, &blocks_of(s, slot)[q->blocks], s->free[s->n_free]);
  set(s, &q->blocks, q->blocks + 1);
}

static void pop_blocks(struct state *s, uint32_t slot)
{
  struct sequence *q = &s->sequences[slot];
  while (q->blocks > 0) {
    set(s, &q->blocks, q->blocks - 1);
    set(s, &s->free[s->n_free], blocks_of(s, slot)[q->blocks]);
    set(s, &s->n_free, s->n_free + 1);
  }
  set(s, &q->cached, 0);
}

/* Taking or freeing a block changes at most four words. */
static bool has_room(const struct state *s, uint32_t blocks)
{
  return lls_pol_journal_has_room(&s->journal, 4 * (uint64_t)blocks + 1);
}

static uint32_t blocks_for(const struct state *s, uint32_t tokens)
{
  return (tokens + s->pool.block_tokens - 1) / s->pool.block_tokens;
}

/* ---- the transaction ------------------------------------------------------------ */

static int begin(void *self)
{
  return lls_pol_journal_begin(&((struct state *)self)->journal);
}

static uint32_t mark(void *self)
{
  return ((struct state *)self)->journal.n;
}

static int rollback(void *self, uint32_t to)
{
  return lls_pol_journal_rollback(&((struct state *)self)->journal, to);
}

static int commit(void *self)
{
  return lls_pol_journal_commit(&((struct state *)self)->journal);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct state *s = self;
  struct sequence *q = &s->sequences[r->slot];
  uint32_t wanted = blocks_for(s, q->cached + tokens);
  (void)form;
  (void)flags;
  if (wanted > s->pool.total || wanted > s->pool.per_list)
    return LLS_RESERVE_NEVER;
  if (wanted > q->blocks + s->n_free || !has_room(s, wanted))
    return LLS_RESERVE_LATER;
  while (q->blocks < wanted)
    push_block(s, r->slot);
  return LLS_RESERVE_OK;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct state *s = self;
  if (mode != LLS_PREEMPT_RECOMPUTE)
    return -ENOTSUP;
  if (!has_room(s, s->sequences[r->slot].blocks))
    return -ENOBUFS;
  pop_blocks(s, r->slot);
  return 0;
}

static uint32_t preempt_modes(void *self)
{
  (void)self;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER;
}

/* ---- requests come and go ------------------------------------------------------- */

static int admit(void *self, const struct lls_request *r)
{
  ((struct state *)self)->sequences[r->slot] = (struct sequence){0};
  return 0;
}

/* how: the part that other requests may still share; without sharing there is none. */
static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  (void)how;
  pop_blocks(self, r->slot);
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  ((struct state *)self)->sequences[r->slot].cached = cached_tokens;
}

/* ---- answers -------------------------------------------------------------------- */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct state *s = self;
  bool device = tier == LLS_TIER_DEVICE;
  out->total_units = device ? s->pool.block_units * s->pool.total : 0;
  out->free_units = device ? s->pool.block_units * s->n_free : 0;
  out->reserved_units = 0;
  return tier <= LLS_TIER_HOST ? 0 : -ENOTSUP;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  const struct state *s = self;
  const struct sequence *q = &s->sequences[r->slot];
  uint32_t wanted = blocks_for(s, q->cached + tokens);
  (void)form;
  out->new_units = wanted > q->blocks ? s->pool.block_units * (wanted - q->blocks) : 0;
  out->restore_units = 0;
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  const struct state *s = self;
  const struct sequence *q = &s->sequences[r->slot];
  *out = (struct lls_cache_info){.size = out->size, .cached_tokens = q->cached};
  if (q->blocks == 0)
    return 0;
  out->residency = LLS_RESIDENT_DEVICE;
  out->form = LLS_FORM_KV;
  out->device_units = out->owned_units = s->pool.block_units * q->blocks;
  out->free_slots = q->blocks * s->pool.block_tokens - q->cached;
  return 0;
}

/* Block b begins with unit b block_units. */
static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  const struct state *s = self;
  uint32_t n = s->sequences[r->slot].blocks;
  struct lls_block_entry *entries = s->entries + (size_t)r->slot * s->pool.per_list;
  for (uint32_t i = 0; i < n; i++)
    entries[i] = (struct lls_block_entry){
        .block = s->pool.block_units * blocks_of(s, r->slot)[i],
        .first_token = i * s->pool.block_tokens,
        .count = (uint16_t)s->pool.block_tokens,
    };
  s->lists[r->slot] = (struct lls_group_list){.entries = entries, .n_entries = n};
  *out = (struct lls_block_table){.n_groups = 1, .lists = &s->lists[r->slot]};
  return 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  (void)self;
  *out = NULL;
  return 0;
}

static void see(struct lls_pol_report *a, uint32_t block)
{
  struct state *s = a->m;
  bool is_one = block < s->pool.total;
  if (lls_pol_report_check(a, is_one, "no such block", block))
    lls_pol_report_check(a, s->seen[block]++ == 0, "held twice: block", block);
}

static void see_sequence(struct lls_pol_report *a, uint32_t slot)
{
  const struct state *s = a->m;
  const struct sequence *q = &s->sequences[slot];
  bool fits = q->blocks <= s->pool.per_list &&
              q->cached <= (uint64_t)q->blocks * s->pool.block_tokens;
  if (!lls_pol_report_check(a, fits, "more than it has room for: slot", slot))
    return;
  for (uint32_t i = 0; i < q->blocks; i++)
    see(a, blocks_of(s, slot)[i]);
  if (q->blocks > 0)
    lls_pol_report_say(a, "slot %u: %u blocks, %u cached, last block %u", slot, q->blocks,
                       q->cached, blocks_of(s, slot)[q->blocks - 1]);
  lls_pol_report_end_line(a);
}

/* Every block is free or held, once. */
static int audit(void *self, const struct lls_sink *sink)
{
  struct state *s = self;
  struct lls_pol_report a = {.m = s, .host = s->host, .sink = sink};
  memset(s->seen, 0, s->pool.total);
  if (lls_pol_report_check(&a, s->n_free <= s->pool.total, "free blocks", s->n_free))
    for (uint32_t i = 0; i < s->n_free; i++)
      see(&a, s->free[i]);
  for (uint32_t i = 0; i < s->pool.n_slots; i++)
    see_sequence(&a, i);
  for (uint32_t i = 0; i < s->pool.total; i++)
    lls_pol_report_check(&a, s->seen[i] == 1, "neither free nor held: block", i);
  sink->number(sink->context, "free", s->n_free);
  return a.result;
}

/* ---- what a reload takes over ----------------------------------------------------- */

#define STATE_VERSION 2 /* of the exported state */

static int parts(void *manager, struct lls_pol_state_walk *w)
{
  struct state *s = manager;
  struct pool pool = s->pool;
  lls_pol_state_pass(w, &pool, sizeof pool);
  if (memcmp(&pool, &s->pool, sizeof pool) != 0)
    return -ENOTSUP; /* the state is of another pool */
  lls_pol_state_pass(w, &s->n_free, sizeof s->n_free);
  lls_pol_state_pass(w, s->free, s->pool.total * sizeof *s->free);
  lls_pol_state_pass(w, s->sequences, s->pool.n_slots * sizeof *s->sequences);
  lls_pol_state_pass(w, s->blocks,
                     (size_t)s->pool.n_slots * s->pool.per_list * sizeof *s->blocks);
  return 0;
}

static int export_state(void *self, struct lls_blob *out)
{
  return lls_pol_state_export(self, parts, 0, STATE_VERSION, out);
}

static void make_empty(struct state *s)
{
  memset(s->sequences, 0, s->pool.n_slots * sizeof *s->sequences);
  s->n_free = s->pool.total;
  for (uint32_t i = 0; i < s->pool.total; i++)
    s->free[i] = s->pool.total - 1 - i;
}

static int import_state(void *self, const struct lls_blob *in)
{
  struct state *s = self;
  if (in->version != STATE_VERSION)
    return s->host->fail(s->host->context, -ENOTSUP, "state of another manager (%u)",
                         in->version);
  int rc = lls_pol_state_import(s, parts, in->data, in->bytes);
  rc = lls_pol_state_audit(s, rc, audit);
  if (rc < 0)
    make_empty(s);
  return rc;
}

/* ---- life ----------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct state *s = self;
  free(s->sequences);
  free(s->free);
  free(s->blocks);
  free(s->entries);
  free(s->lists);
  free(s->seen);
  free(s->journal.changes);
  free(s);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct state *s = calloc(1, sizeof *s);
  (void)params; /* it has none */
  if (s == NULL)
    return -ENOMEM;
  s->host = host;
  s->pool.block_tokens = g->block_tokens;
  s->pool.block_units = host->engine->groups[0]->forms[0].block_units;
  s->pool.total = g->device_units / s->pool.block_units;
  s->pool.per_list = blocks_for(s, host->engine->max_context);
  s->pool.n_slots = host->engine->max_requests;
  s->journal.max =
      16 * (s->pool.total + s->pool.n_slots) + 1024; /* each block: taken, freed, twice */
  s->sequences = calloc(s->pool.n_slots, sizeof *s->sequences);
  s->free = calloc((size_t)s->pool.total + 1, sizeof *s->free);
  s->blocks = calloc((size_t)s->pool.n_slots * s->pool.per_list, sizeof *s->blocks);
  s->entries = calloc((size_t)s->pool.n_slots * s->pool.per_list, sizeof *s->entries);
  s->lists = calloc(s->pool.n_slots, sizeof *s->lists);
  s->seen = calloc((size_t)s->pool.total + 1, sizeof *s->seen);
  s->journal.changes = calloc(s->journal.max, sizeof *s->journal.changes);
  if (!s->sequences || !s->free || !s->blocks || !s->entries || !s->lists || !s->seen ||
      !s->journal.changes) {
    destroy(s);
    return -ENOMEM;
  }
  make_empty(s);
  *self = s;
  return 0;
}

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL,
    .forms = 1u << LLS_FORM_KV,
};

static const struct lls_cache_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .caps = &caps,
    .create = create,
    .destroy = destroy,
    .capacity = capacity,
    .need = need,
    .begin = begin,
    .mark = mark,
    .rollback = rollback,
    .commit = commit,
    .reserve = reserve,
    .preempt = preempt,
    .admit = admit,
    .release = release,
    .info = info,
    .table = table,
    .copies = copies,
    .computed = computed,
    .preempt_modes = preempt_modes,
    .audit = audit,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "example",
    .version = "1.0",
    .description = "blocks on demand, preemption by recompute",
    .licence = "Apache-2.0",
    .vtable = &vtable,
};
