/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bidirectional cache manager's interface to the core: parameters, creation, the
 * transaction, and the queries that change nothing. See bidirectional.h for the idea,
 * README for the paper. All memory is allocated here, once.
 */
#include "bidirectional.h"

#include <llmserve/policy/count.h>
#include <llmserve/policy/state.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct sequence *sequence_of(struct bidirectional *m, const struct lls_request *r)
{
  const struct lls_pol_sequence *s = lls_pol_rows_find(&m->side.rows, r);
  return s != NULL ? &m->sequences[s - m->side.rows.sequences] : NULL;
}

/* ---- life -------------------------------------------------------------------------- */

static void size_up(struct bidirectional *m, const struct lls_host *host,
                    const struct lls_cache_geometry *g)
{
  const struct lls_engine_caps *e = host->engine;
  m->units = m->side.units[LLS_TIER_DEVICE][0];
  m->n_blocks = lls_pol_slabs_blocks(&m->side.slabs[LLS_TIER_DEVICE]);
  m->n_host_blocks =
      m->side.n_tiers > 1 ? lls_pol_slabs_blocks(&m->side.slabs[LLS_TIER_HOST]) : 0;
  m->n_slots = e->max_requests;
  uint64_t tokens = (uint64_t)m->n_blocks * g->block_tokens;
  m->most_tokens = tokens < e->max_context ? (uint32_t)tokens : e->max_context;
  m->groups = (m->most_tokens + g->block_tokens - 1) / g->block_tokens;
  m->bit_words = (g->block_tokens + 31) / 32;
  m->row_entries = lls_pol_min(m->n_blocks, m->most_tokens);
  m->n_rows = lls_pol_min(m->n_slots, 2 * e->max_sequences);
}

static int make_side(struct bidirectional *m, const struct lls_host *host,
                     const struct lls_cache_geometry *g)
{
  uint32_t units = host->engine->groups[0]->forms[0].block_units;
  uint64_t blocks =
      ((uint64_t)g->device_units + g->host_units) / units + host->engine->max_sequences;
  uint64_t changes = (256 + UINT64_C(16) * ((g->block_tokens + 31) / 32)) * (blocks + 1);
  m->side.more_changes = changes < UINT32_MAX ? (uint32_t)changes : UINT32_MAX;
  m->side.more_copies = 4 * (uint32_t)blocks;
  m->side.own_groups = 1;
  m->side.pass = bidi_pass;
  m->side.mark = bidi_mark;
  m->side.moved = bidi_blocks_moved;
  return lls_pol_side_create(&m->side, host, g);
}

static bool allocate(struct bidirectional *m)
{
  uint32_t n = m->n_blocks, words = (n + 31) / 32,
           n_sets = 2 * (m->side.block_tokens + 1);
  m->parts = calloc((size_t)2 * n, sizeof *m->parts);
  m->sets = calloc(n_sets, sizeof *m->sets);
  m->set_words =
      calloc((size_t)n_sets * (words + (words + 31) / 32), sizeof *m->set_words);
  m->sequences = calloc(m->n_slots, sizeof *m->sequences);
  m->host_blocks = calloc(m->n_host_blocks + (size_t)1, sizeof *m->host_blocks);
  m->host_bits =
      calloc((size_t)m->n_host_blocks * m->bit_words + 1, sizeof *m->host_bits);
  m->host_table = calloc((size_t)m->n_slots * m->groups, sizeof *m->host_table);
  m->marks = calloc((size_t)2 * n, sizeof *m->marks);
  m->rows = calloc(m->n_rows, sizeof *m->rows);
  m->entries = calloc((size_t)m->n_rows * m->row_entries, sizeof *m->entries);

  m->grown = calloc(m->n_slots, sizeof *m->grown);
  return m->parts && m->sets && m->set_words && m->sequences && m->host_blocks &&
         m->host_bits && m->host_table && m->marks && m->rows && m->entries && m->grown;
}

static void make_empty(struct bidirectional *m)
{
  lls_pol_side_make_empty(&m->side);
  for (uint32_t i = 0; i < 2 * m->n_blocks; i++)
    m->parts[i] =
        (struct part){.owner = LLS_POL_NIL, .previous = LLS_POL_NIL, .next = LLS_POL_NIL};
  for (uint32_t i = 0; i < m->n_slots; i++)
    m->sequences[i] =
        (struct sequence){.first = LLS_POL_NIL, .last = LLS_POL_NIL, .row = LLS_POL_NIL};
  for (uint32_t i = 0; i < m->n_host_blocks; i++)
    m->host_blocks[i] = (struct host_block){.owner = LLS_POL_NIL};
  m->host_hand = m->used[0] = m->used[1] = 0;
  memset(m->host_bits, 0, (size_t)m->n_host_blocks * m->bit_words * sizeof *m->host_bits);
  memset(m->host_table, 0, (size_t)m->n_slots * m->groups * sizeof *m->host_table);
  bidi_empty_sets(m);
  bidi_fill_sets(m);
  bidi_empty_rows(m);
}

static void destroy(void *self)
{
  struct bidirectional *m = self;
  lls_pol_side_destroy(&m->side);
  free(m->parts);
  free(m->sets);
  free(m->set_words);
  free(m->sequences);
  free(m->host_blocks);
  free(m->host_bits);
  free(m->host_table);
  free(m->marks);
  free(m->rows);
  free(m->entries);

  free(m->grown);
  free(m);
}

static int check(const struct lls_host *host, const struct params *p,
                 const struct lls_cache_geometry *g)
{
  if (g->block_tokens == 0 || g->block_tokens > INT16_MAX)
    return host->fail(host->context, -EINVAL, "blocks of %u tokens: 1 to 32767 can be",
                      g->block_tokens);
  if (p->mode == BOTH_ENDS && !host->engine->right_to_left)
    return host->fail(host->context, -ENOTSUP,
                      "blocks filled from the right are unsupported by this engine: set "
                      "[cache.bidirectional] mode = off");
  return 0;
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  int rc = check(host, params, g);
  if (rc < 0)
    return rc;
  struct bidirectional *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->params = *(const struct params *)params;
  rc = make_side(m, host, g);
  if (rc == 0) {
    size_up(m, host, g);
    rc = allocate(m)
             ? 0
             : host->fail(host->context, -ENOMEM, "no memory to keep track of %u units",
                          g->device_units + g->host_units);
  }
  if (rc < 0) {
    destroy(m);
    return rc;
  }
  m->side.slabs[LLS_TIER_HOST].owner = bidi_host_owner(m);
  make_empty(m);
  *self = m;
  return 0;
}

static int admit(void *self, const struct lls_request *r)
{
  struct bidirectional *m = self;
  int rc = lls_pol_rows_admit(&m->side.rows, r);
  if (rc < 0)
    return rc;
  bool right = r->request_class == LLS_CLASS_BEST_EFFORT && m->params.mode == BOTH_ENDS;
  m->sequences[r->slot] =
      (struct sequence){.end = right ? LLS_RIGHT_TO_LEFT : LLS_LEFT_TO_RIGHT,
                        .first = LLS_POL_NIL,
                        .last = LLS_POL_NIL,
                        .row = LLS_POL_NIL};
  return 0;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct bidirectional *m = self;
  struct sequence *s = sequence_of(m, r);
  (void)how; /* there is no prefix index to keep it in */
  if (s == NULL)
    return;
  bidi_stop_moving(m, s);
  bidi_drop(m, s);
  bidi_free_row(m, s);
  side_of(m, s)->admitted = false;
}

/* ---- the transaction --------------------------------------------------------------- */

static int begin(void *self)
{
  struct bidirectional *m = self;
  int rc = lls_pol_face_begin(self);
  if (rc < 0)
    return rc;
  m->n_grown = 0;
  m->step++;
  m->displaced = m->checkpointed = m->restored = m->ahead = m->kept_by_host = 0;
  return 0;
}

/* Logs once that the host is full; counts each case. */
static void report_full_host(struct bidirectional *m)
{
  lls_pol_count(m->side.host, "kept_by_full_host", m->kept_by_host);
  if (m->kept_by_host == 0 || m->said_full)
    return;
  m->said_full = true;
  m->side.host->log(
      m->side.host->context, LLS_LOG_WARNING,
      "all %u blocks of the host pool hold slots that best-effort requests have "
      "lost: those that are left keep theirs, and real-time requests wait for "
      "memory or are dropped. Set [cache] host_memory to more",
      m->n_host_blocks);
}

static int commit(void *self)
{
  struct bidirectional *m = self;
  if (m->side.journal.open)
    bidi_checkpoint_ahead(m);
  int rc = lls_pol_journal_commit(&m->side.journal);
  if (rc < 0)
    return rc;
  lls_pol_count(m->side.host, "displaced", m->displaced);
  lls_pol_count(m->side.host, "checkpointed", m->checkpointed);
  lls_pol_count(m->side.host, "checkpointed_ahead", m->ahead);
  lls_pol_count(m->side.host, "restored", m->restored);
  report_full_host(m);
  return 0;
}

/* Notes a real-time sequence, whose next tokens may displace other sequences' tokens. */
static void note_grown(struct bidirectional *m, const struct sequence *s)
{
  if (s->end != LLS_LEFT_TO_RIGHT || m->n_grown == m->n_slots)
    return;
  m->grown[m->n_grown] = (uint32_t)(s - m->sequences);
  set(m, &m->n_grown, m->n_grown + 1);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct bidirectional *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->side.journal.open)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  int rc = bidi_reserve(m, s, r, tokens, flags & LLS_MAY_DISPLACE);
  if (rc == LLS_RESERVE_OK)
    note_grown(m, s);
  return rc;
}

static bool can_swap(const struct bidirectional *m)
{
  return m->n_host_blocks > 0 && m->params.mode == BOTH_ENDS;
}

/* Returns the blocks that the sequence holds in the groups but the first. */
static uint32_t others_of(const struct bidirectional *m, const struct sequence *s)
{
  uint32_t blocks = 0;
  for (uint32_t group = 1; group < m->side.n_groups; group++)
    blocks += lls_pol_rows_held(&m->side.rows, side_of(m, s), group);
  return blocks;
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct bidirectional *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->side.journal.open)
    return -EINVAL;
  switch (mode) {
  case LLS_PREEMPT_RECOMPUTE:
    if (!lls_pol_journal_has_room(&m->side.journal,
                                  64 + UINT64_C(48) * (s->parts + others_of(m, s)) +
                                      (32 + m->bit_words) * (uint64_t)s->host_blocks))
      return -ENOBUFS;
    bidi_drop(m, s);
    return 0;
  case LLS_PREEMPT_SWAP:
    return can_swap(m) ? bidi_swap_out(m, s) : -ENOTSUP;
  case LLS_PREEMPT_DEFER:
    return 0;
  default:
    return -ENOTSUP;
  }
}

static int move(void *self, const struct lls_request *r, enum moving where,
                uint64_t *transfer)
{
  struct bidirectional *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->side.journal.open)
    return -EINVAL;
  *transfer = UINT64_C(1) + r->slot;
  return can_swap(m) ? bidi_start_moving(m, s, r, where) : -ENOTSUP;
}

static int offload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  return move(self, r, TO_HOST, transfer);
}

static int upload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  return move(self, r, TO_DEVICE, transfer);
}

static void on_transfer(void *self, uint64_t transfer)
{
  struct bidirectional *m = self;
  if (transfer > 0 && transfer <= m->n_slots && !m->side.journal.open)
    bidi_moved(m, &m->sequences[transfer - 1]);
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct bidirectional *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s != NULL && !m->side.journal.open)
    bidi_computed(m, s, r, cached_tokens);
}

/* ---- questions --------------------------------------------------------------------- */

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct bidirectional *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  uint32_t room = in_step(m, s) ? s->slots - cached_of(m, s) : 0;
  room += bidi_tail(m, s);
  out->new_units = tokens > room ? m->units * blocks_of(m, tokens - room) : 0;
  out->new_units += lls_pol_side_need(&m->side, side_of(m, s), r, tokens);
  out->restore_units = bidi_restore_units(m, s);
  if (side_of(m, s)->where == LLS_POL_ON_HOST)
    out->restore_units += lls_pol_side_units_in(&m->side, side_of(m, s), LLS_TIER_DEVICE);
  return 0;
}

static uint32_t residency_of(const struct bidirectional *m, const struct sequence *s)
{
  if (s->moving != NOT_MOVING)
    return LLS_RESIDENT_MOVING;
  if (s->slots == 0 && side_of(m, s)->where != LLS_POL_ON_DEVICE)
    return cached_of(m, s) > 0 ? LLS_RESIDENT_HOST : LLS_RESIDENT_NONE;
  return missing_of(m, s) > 0 ? LLS_RESIDENT_PARTIAL : LLS_RESIDENT_DEVICE;
}

/* shared_tokens counts contents that are had in common: here there are none. */
static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct bidirectional *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  uint32_t others = lls_pol_side_units(&m->side, side_of(m, s));
  bool on_host = side_of(m, s)->where == LLS_POL_ON_HOST;
  *out = (struct lls_cache_info){
      .size = out->size,
      .residency = residency_of(m, s),
      .form = s->slots > 0 || cached_of(m, s) > 0 ? LLS_FORM_KV : LLS_FORM_NONE,
      .device_units = m->units * s->parts + (on_host ? 0 : others),
      .owned_units = m->units * (s->parts - s->sharing) + (on_host ? 0 : others),
      .host_units =
          m->side.units[LLS_TIER_HOST][0] * s->host_blocks + (on_host ? others : 0),
      .cached_tokens = cached_of(m, s),
      .missing_tokens = missing_of(m, s),
      .free_slots = in_step(m, s) ? s->slots - cached_of(m, s) : bidi_tail(m, s),
  };
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct bidirectional *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || s->slots == 0 || missing_of(m, s) > 0 || m->side.journal.open)
    return -EINVAL;
  if (m->side.n_groups > 1)
    lls_pol_rows_table(&m->side.rows, side_of(m, s), out);
  return bidi_table(m, s, out);
}

static uint32_t preempt_modes(void *self)
{
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER |
         (can_swap(self) ? 1u << LLS_PREEMPT_SWAP : 0);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct bidirectional *m = self;
  const struct lls_pol_slabs *device = &m->side.slabs[LLS_TIER_DEVICE];
  const struct lls_pol_slabs *host = &m->side.slabs[LLS_TIER_HOST];
  const struct lls_pol_slab_class *c = &host->classes[m->side.kinds[LLS_TIER_HOST][0]];
  uint32_t host_units = m->side.units[LLS_TIER_HOST][0], idle = c->n_used - c->n_held;
  bool on_host = m->side.n_tiers > 1;
  const struct {
    const char *name;
    double value;
  } numbers[] = {
      {"blocks", lls_pol_slabs_total(device) / m->units},
      {"blocks_free", lls_pol_slabs_available(device) / m->units},
      {"left_slots", m->used[0]},
      {"right_slots", m->used[1]},
      {"host_blocks", on_host ? lls_pol_slabs_total(host) / host_units : 0},
      {"host_blocks_free",
       on_host ? lls_pol_slabs_available(host) / host_units - idle : 0},
      {"host_blocks_idle", idle},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sink->number(sink->context, numbers[i].name, numbers[i].value);
}

static int audit(void *self, const struct lls_sink *sink)
{
  return bidi_audit(self, sink);
}

static int export_state(void *self, struct lls_blob *out)
{
  return bidi_export(self, out);
}

/* Replaces the state by an exported one. If that can't be taken over, or contradicts
 * itself, the manager is empty afterwards. */
static int import_state(void *self, const struct lls_blob *in)
{
  struct bidirectional *m = self;
  int rc = lls_pol_state_audit(m, bidi_import(m, in), audit);
  if (rc < 0)
    make_empty(m);
  return rc;
}

static int reconfigure(void *self, const void *params)
{
  struct bidirectional *m = self;
  /* `mode` cannot change: existing sequences are laid out by it */
  int64_t mode = m->params.mode;
  m->params = *(const struct params *)params;
  m->params.mode = mode;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(struct params, mode, "bidirectional", "bidirectional|off",
                     "best-effort requests fill blocks from the right and lose slots to "
                     "real-time ones; off: a block has one owner, preempted by recompute",
                     .flags = LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_BOOL(struct params, keep_host_copy, "on",
                   "keep the host copy of a token that is back on the device, for the "
                   "next time",
                   .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_INT(struct params, be_min_free_slots, "1", 1, 256, "slots",
                  "free slots that a block needs for a best-effort request to begin "
                  "in it",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_INT(struct params, ahead, "16", 0, 65536, "blocks",
                  "blocks a step whose best-effort tokens are copied to the host beside "
                  "it, before a real-time request takes their slots; 0: not before it "
                  "does",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL | 1u << LLS_GROUP_WINDOW | 1u << LLS_GROUP_CHUNK,
    .forms = 1u << LLS_FORM_KV,
    .groups = LLS_POL_MAX_GROUPS,
};

static const struct lls_cache_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .caps = &caps,
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .mark = lls_pol_face_mark,
    .rollback = lls_pol_face_rollback,
    .commit = commit,
    .admit = admit,
    .release = release,
    .capacity = lls_pol_face_capacity,
    .need = need,
    .reserve = reserve,
    .preempt = preempt,
    .preempt_modes = preempt_modes,
    .computed = computed,
    .info = info,
    .table = table,
    .copies = lls_pol_face_copies,
    .offload = offload,
    .upload = upload,
    .on_transfer = on_transfer,
    .audit = audit,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "bidirectional",
    .version = "1.0",
    .description =
        "real-time and best-effort requests in the same blocks, from both ends "
        "(BROS)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
