/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prefix cache, and its mutants: each would let some request use blocks computed
 * after another prompt. With `mutant` = none it is correct.
 *
 * Block b begins with unit b `units`. A full block whose tokens have been computed is
 * in the index: it can be found by its parent, the block before it, and its key.
 * Blocks without holders stay there until their memory is needed; children are evicted
 * before parents. Everything that a transaction changes is a word, changed through a
 * journal.
 */
#include "t/cache_base.h"

#include <stdio.h>
#include <string.h>

#define ROOT LLS_POL_NIL /* the parent of a first block */

enum mutant {
  NONE,
  PARTIAL,    /* blocks are in the index before they are full */
  WHOLE,      /* a whole prompt is shared, including its last token */
  ANY_PARENT, /* the same tokens are the same block, whatever precedes them */
  BY_TOKENS,  /* blocks are found by tokens without their keys: also another tenant's */
  NOT_HELD,   /* a request that takes a prefix is not counted as a holder */
  SILENT,     /* `changes` does not say that blocks came */
  STALE,      /* ... that they left */
};

struct params {
  int64_t mutant;
};

struct block {
  uint32_t holders, children, parent, indexed, used; /* used: time of last use */
};

struct sequence { /* by slot */
  uint32_t n, cached;
};

struct said { /* by `changes` */
  bool there;
  struct lls_key key;
};

struct state {
  struct base base;
  enum mutant mutant;
  uint32_t n_blocks, per_list, clock;
  struct block *blocks;          /* (n_blocks) */
  struct lls_key *keys;          /* (n_blocks) keys of the blocks in the index */
  int32_t *tokens;               /* (n_blocks, block_tokens) their tokens, for mutants */
  struct sequence *sequences;    /* (n_slots) */
  uint32_t *lists;               /* (n_slots, per_list) */
  struct lls_block_entry *table; /* (n_slots, per_list) */
  struct lls_group_list *shown;  /* (n_slots) */
  struct said *said;             /* (n_blocks) */
};

static uint32_t *list_of(const struct state *s, uint32_t slot)
{
  return s->lists + (size_t)slot * s->per_list;
}

/* ---- the index ------------------------------------------------------------------ */

static void leave_index(struct state *s, uint32_t b)
{
  struct block *block = &s->blocks[b];
  if (block->indexed == 0)
    return;
  base_set(s, &block->indexed, 0);
  if (block->parent != ROOT && s->blocks[block->parent].children > 0)
    base_set(s, &s->blocks[block->parent].children,
             s->blocks[block->parent].children - 1);
}

static void join_index(struct state *s, uint32_t b, uint32_t parent)
{
  struct block *block = &s->blocks[b];
  base_set(s, &block->indexed, 1);
  base_set(s, &block->parent, parent);
  if (parent != ROOT)
    base_set(s, &s->blocks[parent].children, s->blocks[parent].children + 1);
}

static bool names(const struct state *s, uint32_t b, const struct lls_request *r,
                  uint32_t i)
{
  size_t bt = s->base.block_tokens;
  if (s->mutant != ANY_PARENT && s->mutant != BY_TOKENS)
    return lls_key_equal(&s->keys[b], &r->keys[i]);
  return memcmp(s->tokens + b * bt, r->tokens + i * bt, bt * sizeof *r->tokens) == 0;
}

/* Finds the request's i-th block, which follows `parent`. */
static uint32_t find(const struct state *s, uint32_t parent, const struct lls_request *r,
                     uint32_t i)
{
  for (uint32_t b = 0; b < s->n_blocks; b++)
    if (s->blocks[b].indexed &&
        (s->blocks[b].parent == parent || s->mutant == ANY_PARENT) && names(s, b, r, i))
      return b;
  return LLS_POL_NIL;
}

static bool can_go(const struct block *b)
{
  return b->holders == 0 && (b->indexed == 0 || b->children == 0);
}

static bool goes_before(const struct block *a, const struct block *b)
{
  if (a->indexed != b->indexed)
    return a->indexed < b->indexed;
  return a->used < b->used;
}

/* Takes a block for new contents; NIL: all have holders. */
static uint32_t take(struct state *s)
{
  uint32_t best = LLS_POL_NIL;
  for (uint32_t b = 0; b < s->n_blocks; b++)
    if (can_go(&s->blocks[b]) &&
        (best == LLS_POL_NIL || goes_before(&s->blocks[b], &s->blocks[best])))
      best = b;
  if (best != LLS_POL_NIL)
    leave_index(s, best);
  return best;
}

static void hold(struct state *s, uint32_t slot, uint32_t b)
{
  struct sequence *q = &s->sequences[slot];
  base_set(s, &s->blocks[b].holders, s->blocks[b].holders + 1);
  base_set(s, &s->blocks[b].used, ++s->clock);
  base_set(s, &list_of(s, slot)[q->n], b);
  base_set(s, &q->n, q->n + 1);
}

static void let_go(struct state *s, uint32_t slot)
{
  struct sequence *q = &s->sequences[slot];
  while (q->n > 0) {
    struct block *b = &s->blocks[list_of(s, slot)[q->n - 1]];
    if (b->holders > 0)
      base_set(s, &b->holders, b->holders - 1);
    base_set(s, &b->used, ++s->clock);
    base_set(s, &q->n, q->n - 1);
  }
  base_set(s, &q->cached, 0);
}

/* ---- the transaction ------------------------------------------------------------ */

static int prefix(void *self, const struct lls_request *r, bool taken,
                  struct lls_prefix *out)
{
  struct state *s = self;
  struct sequence *q = &s->sequences[r->slot];
  uint32_t length = lls_request_length(r), bt = s->base.block_tokens, parent = ROOT,
           n = 0;
  if (q->n > 0) {
    out->tokens = taken ? q->cached : 0;
    return 0;
  }
  if (!base_has_room(s, 8 * (uint64_t)base_blocks(&s->base, length)))
    return 0;
  for (; (n + 1) * bt < length + (s->mutant == WHOLE); n++) {
    uint32_t b = find(s, parent, r, n);
    if (b == LLS_POL_NIL)
      break;
    parent = b;
    if (!taken)
      continue;
    hold(s, r->slot, b);
    if (s->mutant == NOT_HELD)
      base_set(s, &s->blocks[b].holders, s->blocks[b].holders - 1);
  }
  if (taken)
    base_set(s, &q->cached, n * bt);
  out->tokens = n * bt;
  return 0;
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct state *s = self;
  struct sequence *q = &s->sequences[r->slot];
  uint32_t wanted = base_blocks(&s->base, q->cached + tokens);
  (void)form;
  (void)flags;
  if (wanted > s->n_blocks || wanted > s->per_list)
    return LLS_RESERVE_NEVER;
  if (!base_has_room(s, 8 * (uint64_t)wanted))
    return LLS_RESERVE_LATER;
  while (q->n < wanted) {
    uint32_t b = take(s);
    if (b == LLS_POL_NIL)
      return LLS_RESERVE_LATER;
    hold(s, r->slot, b);
  }
  return LLS_RESERVE_OK;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct state *s = self;
  if (mode != LLS_PREEMPT_RECOMPUTE)
    return -ENOTSUP;
  if (!base_has_room(s, 4 * (uint64_t)s->per_list))
    return -ENOBUFS;
  let_go(s, r->slot);
  return 0;
}

/* ---- requests come and go ------------------------------------------------------- */

static int admit(void *self, const struct lls_request *r)
{
  ((struct state *)self)->sequences[r->slot] = (struct sequence){0};
  return 0;
}

/* Removes a block from the index and, without KEEP_PREFIX, all blocks that follow
 * it. */
static void forget(struct state *s, uint32_t b)
{
  for (uint32_t c = 0; s->blocks[b].children > 0 && c < s->n_blocks; c++)
    if (s->blocks[c].indexed && s->blocks[c].parent == b)
      forget(s, c);
  leave_index(s, b);
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct state *s = self;
  uint32_t first = s->sequences[r->slot].n > 0 ? list_of(s, r->slot)[0] : LLS_POL_NIL;
  let_go(s, r->slot);
  if (first == LLS_POL_NIL || s->blocks[first].holders > 0)
    return;
  if (!(how->flags & LLS_KEEP_PREFIX))
    forget(s, first);
}

/* Adds complete blocks to the index; of two equal blocks only one is added. */
static void computed(void *self, const struct lls_request *r, uint32_t cached)
{
  struct state *s = self;
  uint32_t *list = list_of(s, r->slot), bt = s->base.block_tokens, parent = ROOT;
  uint32_t known = s->mutant == PARTIAL ? lls_request_length(r) : cached;
  s->sequences[r->slot].cached = cached;
  for (uint32_t i = 0; (i + 1) * bt <= known && i < s->sequences[r->slot].n; i++) {
    uint32_t there = find(s, parent, r, i);
    if (there == LLS_POL_NIL && s->blocks[list[i]].indexed == 0) {
      there = list[i];
      memcpy(s->tokens + (size_t)there * bt, r->tokens + (size_t)i * bt,
             bt * sizeof *r->tokens);
      s->keys[there] = r->keys[i];
      join_index(s, there, parent);
    }
    if (there != list[i])
      return; /* later blocks would have a parent that the request does not hold */
    parent = there;
  }
}

/* ---- answers -------------------------------------------------------------------- */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct state *s = self;
  uint32_t unused = 0;
  for (uint32_t b = 0; b < s->n_blocks; b++)
    unused += s->blocks[b].holders == 0;
  out->total_units = tier == LLS_TIER_DEVICE ? s->base.units * s->n_blocks : 0;
  out->free_units = tier == LLS_TIER_DEVICE ? s->base.units * unused : 0;
  out->reserved_units = 0;
  return tier <= LLS_TIER_HOST ? 0 : -ENOTSUP;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  const struct state *s = self;
  const struct sequence *q = &s->sequences[r->slot];
  uint32_t wanted = base_blocks(&s->base, q->cached + tokens);
  (void)form;
  out->new_units = wanted > q->n ? s->base.units * (wanted - q->n) : 0;
  out->restore_units = 0;
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  const struct state *s = self;
  const struct sequence *q = &s->sequences[r->slot];
  *out = (struct lls_cache_info){.size = out->size, .cached_tokens = q->cached};
  if (q->n == 0)
    return 0;
  out->residency = LLS_RESIDENT_DEVICE;
  out->form = LLS_FORM_KV;
  out->device_units = s->base.units * q->n;
  for (uint32_t i = 0; i < q->n; i++)
    out->owned_units +=
        s->blocks[list_of(s, r->slot)[i]].holders == 1 ? s->base.units : 0;
  out->free_slots = q->n * s->base.block_tokens - q->cached;
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  const struct state *s = self;
  uint32_t n = s->sequences[r->slot].n;
  struct lls_block_entry *list = s->table + (size_t)r->slot * s->per_list;
  for (uint32_t i = 0; i < n; i++)
    list[i] = base_entry(&s->base, i, s->base.units * list_of(s, r->slot)[i]);
  *out = base_table(&s->shown[r->slot], list, n);
  return 0;
}

static int audit(void *self, const struct lls_sink *sink)
{
  const struct state *s = self;
  char line[128];
  for (uint32_t i = 0; i < s->n_blocks; i++) {
    const struct block *b = &s->blocks[i];
    snprintf(line, sizeof line, "block %u: %u hold it, %u after %u, used %u, %u follow",
             i, b->holders, b->indexed, b->indexed ? b->parent : 0, b->used, b->children);
    sink->text(sink->context, line);
  }
  for (uint32_t i = 0; i < s->base.n_slots; i++) {
    snprintf(line, sizeof line, "slot %u: %u blocks, %u cached", i, s->sequences[i].n,
             s->sequences[i].cached);
    sink->text(sink->context, line);
  }
  return 0;
}

/* ---- life ----------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct state *s = self;
  free(s->blocks);
  free(s->keys);
  free(s->tokens);
  free(s->sequences);
  free(s->lists);
  free(s->table);
  free(s->shown);
  free(s->said);
  base_close(&s->base);
  free(s);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct state *s = calloc(1, sizeof *s);
  if (s == NULL)
    return -ENOMEM;
  s->mutant = (enum mutant)((const struct params *)params)->mutant;
  uint32_t bt = g->block_tokens;
  s->per_list = (host->engine->max_context + bt - 1) / bt;
  int rc =
      base_open(&s->base, host, g, 64 * host->engine->max_requests * (s->per_list + 1));
  s->n_blocks = g->device_units / s->base.units;
  s->blocks = calloc(s->n_blocks + 1, sizeof *s->blocks);
  s->keys = calloc((size_t)s->n_blocks + 1, sizeof *s->keys);
  s->tokens = calloc((size_t)(s->n_blocks + 1) * s->base.block_tokens, sizeof *s->tokens);
  s->sequences = calloc(s->base.n_slots, sizeof *s->sequences);
  s->lists = calloc((size_t)s->base.n_slots * s->per_list, sizeof *s->lists);
  s->table = calloc((size_t)s->base.n_slots * s->per_list, sizeof *s->table);
  s->shown = calloc(s->base.n_slots, sizeof *s->shown);
  s->said = calloc((size_t)s->n_blocks + 1, sizeof *s->said);
  if (!s->blocks || !s->keys || !s->tokens || !s->sequences || !s->lists || !s->table ||
      !s->shown || !s->said || rc < 0) {
    destroy(s);
    return -ENOMEM;
  }
  *self = s;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(struct params, mutant, "none",
                     "none|partial|whole|any_parent|by_tokens|not_held|silent|stale",
                     "what it does wrong"),
};

static bool is_as_said(const struct state *s, uint32_t b)
{
  const struct said *said = &s->said[b];
  bool is_there = s->blocks[b].indexed != 0;
  return is_there == said->there && (!is_there || lls_key_equal(&said->key, &s->keys[b]));
}

/* Compares each block with what was said of it: first those that have left. */
static size_t changes(void *self, struct lls_block_change *out, size_t max)
{
  struct state *s = self;
  size_t n = 0;
  for (uint32_t b = 0; b < s->n_blocks && n < max; b++) {
    if (is_as_said(s, b) || !s->said[b].there)
      continue;
    s->said[b].there = false;
    if (s->mutant != STALE)
      out[n++] =
          (struct lls_block_change){.kind = LLS_BLOCK_REMOVED, .key = s->said[b].key};
  }
  for (uint32_t b = 0; b < s->n_blocks && n < max && s->mutant != SILENT; b++) {
    if (is_as_said(s, b))
      continue;
    s->said[b] = (struct said){.there = true, .key = s->keys[b]};
    out[n++] = (struct lls_block_change){.kind = LLS_BLOCK_STORED, .key = s->keys[b]};
  }
  return n;
}

static const struct lls_cache_vtable vtable = {
    BASE_OWN,           BASE_TRANSACTION, BASE_PLAIN,       .create = create,
    .release = release, .table = table,   .prefix = prefix, .changes = changes,
};

BASE_PLUGIN("prefix", "a prefix cache, and what it must not do", &vtable,
            LLS_PLUGIN_PARAMS(parameters, struct params));
