/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache manager that moves sequences to the host and back concurrently with steps,
 * and its mutants: each breaks the contract for transfers, or for requests that another
 * instance takes over. With `mutant` = none it is correct.
 *
 * Both pools are cut into regions of a full context each; a sequence has one of the
 * device, one of the host, or both while it moves. Transfers copy one block in a step.
 * Everything that a transaction changes is a word, changed through a journal.
 */
#include "t/cache_base.h"

#include <stdio.h>

#define NONE LLS_POL_NIL

enum mutant {
  NOTHING,
  CRASHES, /* crashes when it reads the tokens of a request that was handed over */
  EARLY,   /* reports arrival after the first block */
  HALF,    /* arrives on the host, but reports half of it on the device */
  KEEPS,   /* a request that has left the device keeps its region there */
  REUSES,  /* the device region is free as soon as the transfer begins */
  SAME,    /* all transfers have the same number */
  STILL,   /* info reports the old place */
  STRAY,   /* copies for a request that has ended */
  STUCK,   /* copies nothing after the first block */
  TAKES,   /* the region of a handed-over request is free at once */
  UNDO,    /* a rolled-back transfer keeps its host region */
};

struct params {
  int64_t mutant;
};

enum { DEVICE, HOST, N_TIERS };

struct sequence { /* by slot */
  uint32_t region[N_TIERS], cached;
  uint32_t transfer, to_host, moved, listed; /* blocks of a transfer */
  uint32_t asked; /* its table was asked for, and it has not been computed since */
};

struct moving {
  struct base base;
  enum mutant mutant;
  uint32_t region_blocks, last_transfer, stray;
  uint32_t n_regions[N_TIERS];
  uint32_t *taken[N_TIERS];      /* (n_regions) */
  struct sequence *sequences;    /* (n_slots) */
  struct lls_block_entry *table; /* (n_slots, region_blocks) */
  struct lls_group_list *lists;  /* (n_slots) */
  struct lls_copy *copies;       /* (max_copies) of this step */
  uint32_t n_copies, max_copies;
};

static struct sequence *sequence_of(const struct moving *m, const struct lls_request *r)
{
  return &m->sequences[r->slot];
}

/* ---- regions ---------------------------------------------------------------------- */

static bool take(struct moving *m, struct sequence *s, uint32_t tier)
{
  for (uint32_t i = 0; i < m->n_regions[tier]; i++) {
    if (m->taken[tier][i])
      continue;
    if (m->mutant == UNDO && tier == HOST)
      m->taken[tier][i] = 1; /* without an entry in the journal */
    else
      base_set(m, &m->taken[tier][i], 1);
    base_set(m, &s->region[tier], i);
    return true;
  }
  return false;
}

static void give_back(struct moving *m, struct sequence *s, uint32_t tier)
{
  if (s->region[tier] == NONE)
    return;
  base_set(m, &m->taken[tier][s->region[tier]], 0);
  base_set(m, &s->region[tier], NONE);
}

/* The first unit of block i. */
static uint32_t unit_of(const struct moving *m, uint32_t region, uint32_t i)
{
  return m->base.units * (m->region_blocks * region + i);
}

static bool copy_block(struct moving *m, const uint32_t region[N_TIERS], uint32_t i,
                       bool to_host, uint32_t transfer)
{
  uint32_t from = region[to_host ? DEVICE : HOST], to = region[to_host ? HOST : DEVICE];
  if (m->n_copies == m->max_copies)
    return false;
  m->copies[m->n_copies] = (struct lls_copy){
      .source_tier = to_host ? LLS_TIER_DEVICE : LLS_TIER_HOST,
      .target_tier = to_host ? LLS_TIER_HOST : LLS_TIER_DEVICE,
      .order = transfer != 0 ? LLS_COPY_ASYNC : LLS_COPY_BEFORE_STEP,
      .n_slots = (uint16_t)m->base.block_tokens,
      .source = unit_of(m, from, i),
      .target = unit_of(m, to, i),
      .transfer = transfer,
  };
  base_set(m, &m->n_copies, m->n_copies + 1);
  return true;
}

/* ---- transfers -------------------------------------------------------------------- */

static int start(struct moving *m, struct sequence *s, bool to_host, uint64_t *transfer)
{
  uint32_t tier = to_host ? HOST : DEVICE, other = to_host ? DEVICE : HOST;
  if (s->cached == 0 || s->transfer != 0 || s->region[tier] != NONE)
    return -EINVAL;
  if (!base_has_room(m, 16) || !take(m, s, tier))
    return -ENOSPC;
  m->last_transfer++;
  base_set(m, &s->transfer, m->mutant == SAME ? 7 : m->last_transfer);
  base_set(m, &s->to_host, to_host);
  base_set(m, &s->moved, 0);
  if (m->mutant == REUSES)
    base_set(m, &m->taken[other][s->region[other]], 0);
  *transfer = s->transfer;
  return 0;
}

static int offload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  return start(self, sequence_of(self, r), true, transfer);
}

static int upload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  return start(self, sequence_of(self, r), false, transfer);
}

static void list_copies(struct moving *m)
{
  static const uint32_t anywhere[N_TIERS] = {0, 0};
  for (uint32_t i = 0; i < m->base.n_slots; i++) {
    struct sequence *s = &m->sequences[i];
    bool more = m->mutant != STUCK || s->moved == 0;
    s->listed = s->moved;
    if (s->transfer != 0 && more &&
        copy_block(m, s->region, s->moved, s->to_host, s->transfer))
      s->listed++;
  }
  if (m->stray != 0 && m->n_regions[HOST] > 0)
    copy_block(m, anywhere, 0, true, m->stray);
  m->stray = 0;
}

static void arrive(struct moving *m, struct sequence *s)
{
  uint32_t tier = s->to_host ? DEVICE : HOST;
  if (m->mutant == KEEPS && s->to_host)
    s->region[tier] = NONE; /* without returning it to the pool */
  if (m->mutant == REUSES)
    s->region[tier] = NONE;
  give_back(m, s, tier);
  s->transfer = s->moved = s->listed = 0;
}

static void on_transfer(void *self, uint64_t transfer)
{
  struct moving *m = self;
  for (uint32_t i = 0; i < m->base.n_slots; i++) {
    struct sequence *s = &m->sequences[i];
    if (s->transfer == 0 || s->transfer != transfer)
      continue;
    s->moved = s->listed;
    if (s->moved == base_blocks(&m->base, s->cached) || m->mutant == EARLY)
      arrive(m, s);
    return;
  }
}

/* ---- the transaction -------------------------------------------------------------- */

static int begin(void *self)
{
  struct moving *m = self;
  m->n_copies = 0;
  for (uint32_t i = 0; i < m->base.n_slots && m->mutant == TAKES; i++)
    if (m->sequences[i].asked)
      give_back(m, &m->sequences[i], DEVICE);
  return base_begin(m);
}

static int commit(void *self)
{
  int rc = base_commit(self);
  list_copies(self);
  return rc;
}

static bool swap(struct moving *m, struct sequence *s, bool to_host)
{
  for (uint32_t i = 0; i < base_blocks(&m->base, s->cached); i++)
    if (!copy_block(m, s->region, i, to_host, 0))
      return false;
  give_back(m, s, to_host ? DEVICE : HOST);
  return true;
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct moving *m = self;
  struct sequence *s = sequence_of(m, r);
  (void)form;
  (void)flags;
  if (base_blocks(&m->base, s->cached + tokens) > m->region_blocks ||
      m->n_regions[DEVICE] == 0)
    return LLS_RESERVE_NEVER;
  if (s->transfer != 0 || !base_has_room(m, 8 + (uint64_t)m->region_blocks))
    return LLS_RESERVE_LATER;
  if (s->region[DEVICE] != NONE)
    return LLS_RESERVE_OK;
  if (m->mutant == REUSES && s->region[HOST] != NONE)
    return LLS_RESERVE_LATER; /* only an upload can bring it back */
  if (!take(m, s, DEVICE) || (s->region[HOST] != NONE && !swap(m, s, false)))
    return LLS_RESERVE_LATER;
  return LLS_RESERVE_OK;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct moving *m = self;
  struct sequence *s = sequence_of(m, r);
  if (mode == LLS_PREEMPT_SWAP && m->n_regions[HOST] == 0)
    return -ENOTSUP;
  if (!base_has_room(m, 8 + (uint64_t)m->region_blocks))
    return -ENOBUFS;
  if (mode == LLS_PREEMPT_SWAP && s->region[DEVICE] != NONE)
    return take(m, s, HOST) && swap(m, s, true) ? 0 : -ENOSPC;
  if (mode != LLS_PREEMPT_RECOMPUTE)
    return 0;
  give_back(m, s, DEVICE);
  give_back(m, s, HOST);
  base_set(m, &s->cached, 0);
  return 0;
}

static uint32_t preempt_modes(void *self)
{
  const struct moving *m = self;
  bool swaps = m->n_regions[HOST] > 0 && m->mutant != REUSES;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER |
         (swaps ? 1u << LLS_PREEMPT_SWAP : 0);
}

/* ---- requests come and go --------------------------------------------------------- */

static int admit(void *self, const struct lls_request *r)
{
  *sequence_of(self, r) = (struct sequence){.region = {NONE, NONE}};
  return 0;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct moving *m = self;
  struct sequence *s = sequence_of(m, r);
  (void)how;
  if (m->mutant == CRASHES && *(const volatile int32_t *)r->tokens < 0)
    return;
  if (m->mutant == STRAY && s->transfer != 0)
    m->stray = s->transfer;
  give_back(m, s, DEVICE);
  give_back(m, s, HOST);
  *s = (struct sequence){.region = {NONE, NONE}};
}

static void computed(void *self, const struct lls_request *r, uint32_t cached)
{
  sequence_of(self, r)->cached = cached;
  sequence_of(self, r)->asked = 0;
}

/* ---- answers ---------------------------------------------------------------------- */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct moving *m = self;
  if (tier > HOST)
    return -ENOTSUP;
  out->total_units = m->base.units * m->region_blocks * m->n_regions[tier];
  out->free_units = 0;
  for (uint32_t i = 0; i < m->n_regions[tier]; i++)
    out->free_units += m->taken[tier][i] ? 0 : m->base.units * m->region_blocks;
  out->reserved_units = 0;
  return 0;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  const struct moving *m = self;
  const struct sequence *s = sequence_of(m, r);
  bool none = s->region[DEVICE] == NONE;
  (void)tokens;
  (void)form;
  out->new_units = none && s->region[HOST] == NONE ? m->base.units * m->region_blocks : 0;
  out->restore_units =
      none && s->region[HOST] != NONE ? m->base.units * m->region_blocks : 0;
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  const struct moving *m = self;
  const struct sequence *s = sequence_of(m, r);
  bool on_host = s->region[HOST] != NONE, on_device = s->region[DEVICE] != NONE;
  *out = (struct lls_cache_info){.size = out->size, .cached_tokens = s->cached};
  if (!on_host && !on_device)
    return 0;
  out->form = LLS_FORM_KV;
  out->residency = s->transfer != 0 && m->mutant != STILL ? LLS_RESIDENT_MOVING
                   : on_device                            ? LLS_RESIDENT_DEVICE
                                                          : LLS_RESIDENT_HOST;
  out->missing_tokens = out->residency == LLS_RESIDENT_DEVICE ? 0 : s->cached;
  if (m->mutant == HALF && out->residency == LLS_RESIDENT_HOST)
    out->missing_tokens /= 2;
  out->device_units = on_device ? m->base.units * m->region_blocks : 0;
  out->owned_units = out->device_units;
  out->host_units = on_host ? m->base.units * m->region_blocks : 0;
  out->free_slots = m->region_blocks * m->base.block_tokens - s->cached;
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct moving *m = self;
  uint32_t n = m->region_blocks;
  struct lls_block_entry *list = m->table + (size_t)n * r->slot;
  sequence_of(m, r)->asked = 1;
  for (uint32_t i = 0; i < n; i++)
    list[i] = base_entry(&m->base, i, unit_of(m, sequence_of(m, r)->region[DEVICE], i));
  *out = base_table(&m->lists[r->slot], list, n);
  return 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  const struct moving *m = self;
  *out = m->copies;
  return m->n_copies;
}

static int audit(void *self, const struct lls_sink *sink)
{
  const struct moving *m = self;
  char line[160];
  for (uint32_t tier = 0; tier < N_TIERS; tier++)
    for (uint32_t i = 0; i < m->n_regions[tier]; i++) {
      snprintf(line, sizeof line, "tier %u region %u: %u", tier, i, m->taken[tier][i]);
      sink->text(sink->context, line);
    }
  for (uint32_t i = 0; i < m->base.n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    snprintf(line, sizeof line, "slot %u: regions %u and %u, %u cached, %s, %u moved", i,
             s->region[DEVICE], s->region[HOST], s->cached,
             s->transfer != 0 ? "on its way" : "at rest", s->moved);
    sink->text(sink->context, line);
  }
  return 0;
}

/* ---- life ------------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct moving *m = self;
  free(m->taken[DEVICE]);
  free(m->taken[HOST]);
  free(m->sequences);
  free(m->table);
  free(m->lists);
  free(m->copies);
  base_close(&m->base);
  free(m);
}

static int measure(struct moving *m, const struct lls_host *host,
                   const struct lls_cache_geometry *g)
{
  const struct lls_engine_caps *e = host->engine;
  uint32_t blocks = g->device_units / e->groups[0]->forms[0].block_units;
  uint32_t context = (e->max_context + g->block_tokens - 1) / g->block_tokens;
  m->region_blocks = lls_pol_min(context, lls_pol_max(1, blocks));
  m->n_regions[DEVICE] = blocks / m->region_blocks;
  m->n_regions[HOST] =
      g->host_units / e->groups[0]->forms[0].block_units / m->region_blocks;
  m->max_copies = 4 * m->region_blocks * (m->n_regions[DEVICE] + m->n_regions[HOST] + 1);
  return base_open(&m->base, host, g, 32 * e->max_requests + 8 * m->max_copies);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct moving *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->mutant = (enum mutant)((const struct params *)params)->mutant;
  int rc = measure(m, host, g);
  m->taken[DEVICE] = calloc(m->n_regions[DEVICE] + 1, sizeof(uint32_t));
  m->taken[HOST] = calloc(m->n_regions[HOST] + 1, sizeof(uint32_t));
  m->sequences = calloc(m->base.n_slots, sizeof *m->sequences);
  m->table = calloc((size_t)m->base.n_slots * m->region_blocks, sizeof *m->table);
  m->lists = calloc(m->base.n_slots, sizeof *m->lists);
  m->copies = calloc(m->max_copies, sizeof *m->copies);
  if (!m->taken[DEVICE] || !m->taken[HOST] || !m->sequences || !m->table || !m->copies ||
      rc < 0) {
    destroy(m);
    return -ENOMEM;
  }
  for (uint32_t i = 0; i < m->base.n_slots; i++)
    m->sequences[i] = (struct sequence){.region = {NONE, NONE}};
  *self = m;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(struct params, mutant, "none",
                     "none|crashes|early|half|keeps|reuses|same|still|stray|stuck|takes|"
                     "undo",
                     "what it does wrong"),
};

static const struct lls_cache_vtable vtable = {
    BASE_OWN,
    .create = create,
    .release = release,
    .table = table,
    .caps = &base_caps,
    .begin = begin,
    .mark = base_mark,
    .rollback = base_rollback,
    .commit = commit,
    .copies = copies,
    .preempt_modes = preempt_modes,
    .offload = offload,
    .upload = upload,
    .on_transfer = on_transfer,
};

BASE_PLUGIN("moving", "moves sequences beside the steps, and what it must not do",
            &vtable, LLS_PLUGIN_PARAMS(parameters, struct params));
