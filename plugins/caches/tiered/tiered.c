/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tiered cache manager's interface to the core: parameters, creation, and the
 * functions that differ from the usual policy's (policy/face.h), since a sequence may be
 * on its way between the tiers. See tiered.h for the idea, README for the paper.
 */
#include "tiered.h"

#include <llmserve/policy/face.h>

#include <errno.h>
#include <stdlib.h>

static struct lls_pol_sequence *sequence_of(struct tiered *m, const struct lls_request *r)
{
  return lls_pol_rows_find(&m->side.rows, r);
}

/* ---- life -------------------------------------------------------------------------- */

static void make_empty(void *manager)
{
  struct tiered *m = manager;
  for (uint32_t slot = 0; slot < m->n_slots; slot++) {
    m->side.rows.sequences[m->n_slots + slot].admitted = 1;
    m->transfers[slot] = (struct transfer){0};
  }
  m->n_moving = 0;
}

static int pass(void *manager, struct lls_pol_state_walk *w)
{
  struct tiered *m = manager;
  lls_pol_state_pass(w, &m->n_moving, sizeof m->n_moving);
  lls_pol_state_pass(w, &m->last_transfer, sizeof m->last_transfer);
  lls_pol_state_pass(w, m->moving, m->n_slots * sizeof *m->moving);
  lls_pol_state_pass(w, m->transfers, m->n_slots * sizeof *m->transfers);
  return m->n_moving <= m->n_slots ? 0 : -EINVAL;
}

static void destroy(void *self)
{
  struct tiered *m = self;
  lls_pol_side_destroy(&m->side);
  free(m->transfers);
  free(m->moving);
  free(m->paced);
  free(m);
}

static int reconfigure(void *self, const void *params)
{
  struct tiered *m = self;
  m->params = *(const struct params *)params;
  lls_pol_side_share(&m->side, m->params.prefix_sharing);
  m->side.leases.share = m->params.lease_share;
  return 0;
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct tiered *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->unit_bytes = g->unit_bytes;
  m->n_slots = m->side.more_slots = host->engine->max_requests;
  m->side.converts = m->side.shares_host = true;
  m->side.writer = "tiered 7"; /* and its version */
  m->side.pass = pass;
  m->side.audit = tiered_audit;
  int rc = lls_pol_side_create(&m->side, host, g);
  m->transfers = calloc(m->n_slots, sizeof *m->transfers);
  m->moving = calloc(m->n_slots, sizeof *m->moving);
  m->paced = calloc(m->n_slots, sizeof *m->paced);
  if (rc == 0 && (m->transfers == NULL || m->moving == NULL || m->paced == NULL))
    rc = host->fail(host->context, -ENOMEM, "no memory for transfers");
  if (rc < 0) {
    destroy(m);
    return rc;
  }
  reconfigure(m, params);
  m->side.make_empty = make_empty;
  lls_pol_side_make_empty(&m->side);
  *self = m;
  return 0;
}

static void set_paced(struct tiered *m, uint32_t slot, bool paced)
{
  m->n_paced += paced;
  m->n_paced -= m->paced[slot];
  m->paced[slot] = paced;
}

static int admit(void *self, const struct lls_request *r)
{
  struct tiered *m = self;
  int rc = lls_pol_face_admit(m, r);
  if (rc == 0)
    set_paced(m, r->slot, r->slo.tbt_ns != LLS_NEVER || r->slo.tpot_ns != LLS_NEVER);
  return rc;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct tiered *m = self;
  if (r->slot < m->n_slots)
    set_paced(m, r->slot, false);
  struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL)
    return;
  tiered_stop(m, s);
  lls_pol_face_release(m, r, how);
}

/* ---- the transaction --------------------------------------------------------------- */

/* Copies before a step make it longer, which no scheduler has planned: with them every
 * gap of mooncake at 1.3 of the capacity was in time in 62 % of its requests, without in
 * 96 %. */
static int begin(void *self)
{
  struct tiered *m = self;
  bool may_wait = m->params.to_host && m->n_paced == 0;
  m->link_units = tiered_link_units(m);
  m->side.most_leaving = may_wait ? m->link_units : 0;
  return lls_pol_face_begin(m);
}

static int commit(void *self)
{
  struct tiered *m = self;
  if (!m->side.journal.open)
    return -EINVAL;
  lls_pol_side_keep_states(&m->side); /* the last that takes memory of the device */
  tiered_list_transfers(m);
  return lls_pol_face_commit(m);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct tiered *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  if (s != NULL && s->partial && m->side.journal.open)
    return LLS_RESERVE_LATER;
  return lls_pol_face_reserve(m, r, tokens, form, flags);
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct tiered *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  if (s != NULL && m->side.journal.open && s->partial) {
    if (mode == LLS_PREEMPT_SWAP)
      return -EBUSY;
    int rc = mode == LLS_PREEMPT_RECOMPUTE ? tiered_stop(m, s) : 0;
    if (rc < 0)
      return rc;
  }
  return lls_pol_face_preempt(m, r, mode);
}

static int start(void *self, const struct lls_request *r, bool to_host,
                 uint64_t *transfer)
{
  struct tiered *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL || !m->side.journal.open)
    return -EINVAL;
  if (m->side.n_tiers == 1)
    return -ENOTSUP;
  int rc = tiered_start(m, s, to_host);
  *transfer = m->transfers[slot_of(m, s)].number;
  return rc;
}

static int offload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  return start(self, r, true, transfer);
}

static int upload(void *self, const struct lls_request *r, uint64_t *transfer)
{
  return start(self, r, false, transfer);
}

static bool wants_step(void *self)
{
  const struct tiered *m = self;
  return m->params.to_host && lls_pol_side_wants_host(&m->side);
}

static void on_transfer(void *self, uint64_t transfer)
{
  tiered_transferred(self, (uint32_t)transfer);
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct tiered *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  if (s != NULL && !s->partial)
    lls_pol_face_computed(m, r, cached_tokens);
}

/* ---- questions --------------------------------------------------------------------- */

/* While a sequence moves, only its target has all of its blocks. */
static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct tiered *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  int rc = lls_pol_face_need(m, r, tokens, form, out);
  if (rc < 0 || !s->partial)
    return rc;
  const struct lls_pol_sequence *to = target_of(m, s);
  out->new_units = lls_pol_side_need(&m->side, to, r, tokens);
  out->restore_units = s->where == LLS_POL_ON_HOST
                           ? lls_pol_side_units_in(&m->side, to, LLS_TIER_DEVICE)
                           : 0;
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct tiered *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  int rc = lls_pol_face_info(m, r, out);
  if (rc < 0 || !s->partial)
    return rc;
  out->residency = LLS_RESIDENT_MOVING;
  out->free_slots = 0;
  return 0;
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct tiered *m = self;
  const struct lls_pol_slabs *device = &m->side.slabs[LLS_TIER_DEVICE];
  const struct lls_pol_slabs *host = &m->side.slabs[LLS_TIER_HOST];
  uint32_t n_free, reusable, on_host = 0, free_on_host = 0, unused, int8 = 0;
  lls_pol_slabs_count(device, &n_free, &reusable);
  if (m->side.n_tiers > 1) {
    on_host = lls_pol_slabs_total(host);
    lls_pol_slabs_count(host, &free_on_host, &unused);
  }
  for (uint32_t slot = 0; slot < m->n_slots; slot++) {
    const struct lls_pol_sequence *s = &m->side.rows.sequences[slot];
    if (s->where == LLS_POL_ON_DEVICE && !s->partial)
      int8 += lls_pol_rows_list(&m->side.rows, s, 0)->small;
  }
  sink->number(sink->context, "units", lls_pol_slabs_total(device));
  sink->number(sink->context, "units_free", n_free);
  sink->number(sink->context, "units_reusable", reusable);
  sink->number(sink->context, "host_units", on_host);
  sink->number(sink->context, "host_units_free", free_on_host);
  sink->number(sink->context, "int8_blocks", int8);
  sink->number(sink->context, "moving", m->n_moving);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_FLOAT(struct params, share, "0.8", 0.01, 1, "",
                    "part of a step's time that moving sequences may use the link for",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(struct params, prefix_sharing, "on",
                   "keep full blocks of finished and running requests and give them to "
                   "later ones with the same prefix",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(
        struct params, to_host, "on",
        "copy blocks that wait for reuse to the host beside steps, where later "
        "requests find them",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, lease_share, "0.3", 0, 1, "",
                    "part of a tier that sessions may retain blocks in",
                    .flags = LLS_PARAM_RELOADABLE),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL | 1u << LLS_GROUP_WINDOW | 1u << LLS_GROUP_CHUNK |
             1u << LLS_GROUP_STATE,
    .forms = 1u << LLS_FORM_KV | 1u << LLS_FORM_INT8 | 1u << LLS_FORM_STATE,
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
    .preempt_modes = lls_pol_face_preempt_modes,
    .prefix = lls_pol_face_prefix,
    .computed = computed,
    .info = info,
    .table = lls_pol_face_table,
    .offload = offload,
    .upload = upload,
    .on_transfer = on_transfer,
    .stats = stats,
    .kept = lls_pol_face_kept,
    .adopt = lls_pol_face_adopt,
    .retain = lls_pol_face_retain,
    .fetch = lls_pol_face_fetch,
    .changes = lls_pol_face_changes,
    .wants_step = wants_step,
    .reconfigure = reconfigure,
    .export_state = lls_pol_face_export,
    .import_state = lls_pol_face_import,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "tiered",
    .version = "2.0",
    .description = "device and host, moved ahead while others compute, int8 (ALISE)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
