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
  m->has_window = e->groups[0]->kind != LLS_GROUP_FULL;
  uint64_t tokens =
      m->has_window ? e->max_context : (uint64_t)m->n_blocks * g->block_tokens;
  m->most_tokens = tokens < e->max_context ? (uint32_t)tokens : e->max_context;
  m->groups = (m->most_tokens + g->block_tokens - 1) / g->block_tokens;
  m->bit_words = (g->block_tokens + 31) / 32;
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
  /* its version, and the mode that sequences lie in */
  m->side.writer = m->params.mode == BOTH_ENDS ? "bidi 6 b" : "bidi 6 l";
  m->side.pass = bidi_pass;
  m->side.audit = bidi_audit;
  m->side.mark = bidi_mark;
  m->side.moved = bidi_blocks_moved;
  return lls_pol_side_create(&m->side, host, g);
}

static bool allocate(struct bidirectional *m)
{
  uint32_t n = m->n_blocks;
  m->parts = calloc((size_t)2 * n, sizeof *m->parts);
  m->set_words = calloc(1, bidi_set_bytes(m));
  m->sequences = calloc(m->n_slots, sizeof *m->sequences);
  m->host_blocks = calloc(m->n_host_blocks + (size_t)1, sizeof *m->host_blocks);
  m->host_bits =
      calloc((size_t)m->n_host_blocks * m->bit_words + 1, sizeof *m->host_bits);
  m->host_table = calloc((size_t)m->n_slots * m->groups, sizeof *m->host_table);
  m->grown = calloc(m->n_slots, sizeof *m->grown);
  return m->parts && m->set_words && m->sequences && m->host_blocks && m->host_bits &&
         m->host_table && m->grown;
}

static void destroy(void *self)
{
  struct bidirectional *m = self;
  lls_pol_side_destroy(&m->side);
  free(m->parts);
  free(m->set_words);
  free(m->sequences);
  free(m->host_blocks);
  free(m->host_bits);
  free(m->host_table);
  free(m->grown);
  free(m);
}

static int check(const struct lls_host *host, const struct params *p,
                 const struct lls_cache_geometry *g)
{
  if (g->block_tokens == 0 || g->block_tokens > INT16_MAX)
    return host->fail(host->context, -EINVAL, "blocks of %u tokens: 1 to 32767 can be",
                      g->block_tokens);
  if (host->engine->groups[0]->kind == LLS_GROUP_STATE)
    return host->fail(host->context, -ENOTSUP,
                      "all layers fold a state: two requests cannot share it, as they "
                      "share a block of K and V");
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
  m->side.make_empty = bidi_make_empty;
  lls_pol_side_make_empty(&m->side);
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
                        .last = LLS_POL_NIL};
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
  memset(m->counts, 0, sizeof m->counts);
  return 0;
}

/* Logs once that the host is full. */
static void report_full_host(struct bidirectional *m)
{
  if (m->counts[KEPT] == 0 || m->said_full)
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
  static const char *const names[] = {"displaced", "checkpointed", "checkpointed_ahead",
                                      "restored", "kept_by_full_host"};
  struct bidirectional *m = self;
  if (m->side.journal.open)
    bidi_checkpoint_ahead(m);
  int rc = lls_pol_journal_commit(&m->side.journal);
  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < N_COUNTS; i++)
    lls_pol_count(m->side.host, names[i], m->counts[i]);
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

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct bidirectional *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->side.journal.open)
    return -EINVAL;
  switch (mode) {
  case LLS_PREEMPT_RECOMPUTE:
    return bidi_drop(m, s);
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
  uint32_t room = spare_of(m, s) + bidi_tail(m, s);
  uint32_t blocks = tokens > room ? lls_pol_side_blocks(&m->side, tokens - room) : 0;
  if (m->has_window) { /* blocks that leave it make room for others */
    uint32_t peak = lls_pol_side_peak(&m->side, side_of(m, s), r, 0, tokens);
    blocks = lls_pol_min(blocks, peak - lls_pol_min(peak, s->parts));
  }
  out->new_units = m->units * blocks;
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
  if (is_off(m, s))
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
      .missing_tokens = is_off(m, s) ? cached_of(m, s) : missing_of(m, s),
      .free_slots = in_step(m, s) ? spare_of(m, s) : bidi_tail(m, s),
  };
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct bidirectional *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || is_off(m, s) || missing_of(m, s) > 0 || m->side.journal.open)
    return -EINVAL;
  struct lls_pol_rows *rows = &m->side.rows;
  bidi_list(m, s);
  lls_pol_rows_table(rows, side_of(m, s), out);
  rows->tables[(size_t)r->slot * rows->n_groups].n_entries = s->parts;
  return 0;
}

static uint32_t preempt_modes(void *self)
{
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER |
         (can_swap(self) ? 1u << LLS_PREEMPT_SWAP : 0);
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct bidirectional *m = self;
  const struct lls_pol_slabs *host = &m->side.slabs[LLS_TIER_HOST];
  const struct lls_pol_slab_class *c = &host->classes[m->side.kinds[LLS_TIER_HOST][0]];
  lls_pol_face_stats(self, sink);
  sink->number(sink->context, "left_slots", m->used[0]);
  sink->number(sink->context, "right_slots", m->used[1]);
  sink->number(sink->context, "host_blocks_idle", c->n_used - c->n_held);
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
    .kinds = 1u << LLS_GROUP_FULL | 1u << LLS_GROUP_WINDOW | 1u << LLS_GROUP_CHUNK |
             1u << LLS_GROUP_STATE,
    .forms = 1u << LLS_FORM_KV,
    .groups = LLS_POL_MAX_GROUPS,
};

static const struct lls_cache_vtable vtable = {
    LLS_POL_FACE_ALWAYS,
    .caps = &caps,
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .commit = commit,
    .admit = admit,
    .release = release,
    .need = need,
    .reserve = reserve,
    .preempt = preempt,
    .preempt_modes = preempt_modes,
    .computed = computed,
    .info = info,
    .table = table,
    .offload = offload,
    .upload = upload,
    .on_transfer = on_transfer,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = bidi_export,
    .import_state = bidi_import,
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
