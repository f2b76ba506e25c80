/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hybrid cache manager's interface to the core: parameters, creation, the
 * transaction, and the queries that change nothing. See hybrid.h for the idea, README for
 * the paper.
 *
 * All memory is allocated here, once. A sequence that holds blocks has a row with room
 * for two lists of a full context; untouched room costs address space only.
 */
#include "hybrid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t most_row_bytes = (size_t)1 << 30;

static struct sequence *sequence_of(struct hybrid *m, const struct lls_request *r)
{
  struct sequence *s = r->slot < m->n_slots ? &m->sequences[r->slot] : NULL;
  return s != NULL && s->admitted && s->request == r->id ? s : NULL;
}

/* ---- life -------------------------------------------------------------------------- */

/* How the engine keeps X; NULL: it has no hidden form. */
static const struct lls_group_form *hidden_of(const struct hybrid *m)
{
  return lls_group_form_of(m->host->engine->groups[0], LLS_FORM_HIDDEN);
}

static uint32_t kv_units(const struct lls_host *host)
{
  return host->engine->groups[0]->forms[0].block_units;
}

static void size_up(struct hybrid *m, const struct lls_cache_geometry *g)
{
  const struct lls_engine_caps *e = m->host->engine;
  m->block_tokens = g->block_tokens;
  m->n_slots = e->max_requests;
  m->row_blocks = lls_pol_min(blocks_of(m, e->max_context), g->device_units);
  size_t row_bytes = (size_t)N_LISTS * m->row_blocks * sizeof *m->entries;
  uint32_t affordable = (uint32_t)(most_row_bytes / row_bytes);
  m->n_rows = lls_pol_min(lls_pol_min(m->n_slots, g->device_units),
                          lls_pol_max(affordable, e->max_sequences));
  uint64_t changes = 64 * ((uint64_t)g->device_units + e->max_sequences);
  m->journal.max = changes < UINT32_MAX ? (uint32_t)changes : UINT32_MAX;
}

/* Offers hidden form only if it saves enough memory. */
static void decide_offer(struct hybrid *m)
{
  const struct lls_group_form *hidden = hidden_of(m);
  double eta = hidden != NULL ? (double)hidden->ratio : 1;
  m->why_not[0] = '\0';
  if (hidden == NULL)
    snprintf(m->why_not, sizeof m->why_not, "for this model the engine offers none");
  else if (eta > m->params.max_eta)
    snprintf(m->why_not, sizeof m->why_not,
             "X takes %.2f of the bytes of K and V in this model, max_eta is %.2f", eta,
             m->params.max_eta);
  m->offers_hidden = m->why_not[0] == '\0';
  if (!m->offers_hidden)
    m->host->log(m->host->context, LLS_LOG_INFO,
                 "all sequences stay in KV form, hidden form saves nothing here: %s",
                 m->why_not);
}

static bool allocate(struct hybrid *m, const struct lls_cache_geometry *g)
{
  const struct lls_group_form *hidden = hidden_of(m);
  const uint32_t units[] = {kv_units(m->host), hidden != NULL ? hidden->block_units : 0};
  m->row_next = calloc(m->n_rows, sizeof *m->row_next);
  m->sequences = calloc(m->n_slots, sizeof *m->sequences);
  m->entries = calloc((size_t)m->n_rows * N_LISTS * m->row_blocks, sizeof *m->entries);
  m->tables = calloc(m->n_slots, sizeof *m->tables);
  m->marks = calloc(g->device_units, sizeof *m->marks);
  m->journal.changes = calloc(m->journal.max, sizeof *m->journal.changes);
  return chains_init(&m->blocks, &m->journal, g->device_units, units, true) == 0 &&
         m->row_next && m->sequences && m->entries && m->tables && m->marks &&
         m->journal.changes;
}

static void destroy(void *self)
{
  struct hybrid *m = self;
  chains_free(&m->blocks);
  free(m->row_next);
  free(m->sequences);
  free(m->entries);
  free(m->tables);
  free(m->marks);
  free(m->journal.changes);
  free(m);
}

static void make_empty(struct hybrid *m)
{
  chains_make_empty(&m->blocks);
  lls_pol_chain_stack(&m->row_head, m->row_next, m->n_rows);
  m->n_rows_free = m->n_rows;
  for (uint32_t i = 0; i < m->n_slots; i++)
    m->sequences[i] = (struct sequence){.row = LLS_POL_NIL};
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  uint32_t units = kv_units(host);
  if (g->device_units < units || g->block_tokens == 0 || g->block_tokens > UINT16_MAX)
    return host->fail(host->context, -EINVAL,
                      "a pool of %u units, blocks of %u tokens: a sequence in KV form "
                      "needs a block of %u units, for 1 to 65535 tokens",
                      g->device_units, g->block_tokens, units);
  struct hybrid *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->host = host;
  m->params = *(const struct params *)params;
  size_up(m, g);
  if (!allocate(m, g)) {
    destroy(m);
    return host->fail(host->context, -ENOMEM, "no memory to keep track of %u units",
                      g->device_units);
  }
  decide_offer(m);
  make_empty(m);
  *self = m;
  return 0;
}

static int admit(void *self, const struct lls_request *r)
{
  struct hybrid *m = self;
  if (r->slot >= m->n_slots || m->sequences[r->slot].admitted)
    return -EINVAL;
  m->sequences[r->slot] =
      (struct sequence){.request = r->id, .admitted = true, .row = LLS_POL_NIL};
  return 0;
}

static void release(void *self, const struct lls_request *r,
                    const struct lls_release *how)
{
  struct hybrid *m = self;
  struct sequence *s = sequence_of(m, r);
  (void)how; /* there is neither a host tier nor a prefix index to keep it in */
  if (s == NULL)
    return;
  hybrid_drop(m, s);
  s->admitted = false;
}

/* ---- the transaction --------------------------------------------------------------- */

static int begin(void *self)
{
  struct hybrid *m = self;
  int rc = lls_pol_journal_begin(&m->journal);
  if (rc < 0)
    return rc;
  m->free_at_begin = m->blocks.n_free;
  return 0;
}

static uint32_t mark(void *self)
{
  return ((struct hybrid *)self)->journal.n;
}

static int rollback(void *self, uint32_t to)
{
  return lls_pol_journal_rollback(&((struct hybrid *)self)->journal, to);
}

static int commit(void *self)
{
  return lls_pol_journal_commit(&((struct hybrid *)self)->journal);
}

static bool is_offered(const struct hybrid *m, uint32_t form)
{
  return form == LLS_FORM_NONE || form == LLS_FORM_KV ||
         (form == LLS_FORM_HIDDEN && m->offers_hidden);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct hybrid *m = self;
  struct sequence *s = sequence_of(m, r);
  (void)flags; /* nothing here can be displaced by slots */
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  if (!is_offered(m, form))
    return -ENOTSUP;
  return hybrid_reserve(m, s, tokens, hybrid_form(m, s, form));
}

static int preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct hybrid *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  if (mode == LLS_PREEMPT_RECOMPUTE)
    hybrid_drop(m, s);
  return mode == LLS_PREEMPT_RECOMPUTE || mode == LLS_PREEMPT_DEFER ? 0 : -ENOTSUP;
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct hybrid *m = self;
  struct sequence *s = sequence_of(m, r);
  if (s == NULL || s->row == LLS_POL_NIL || m->journal.open)
    return;
  s->cached = cached_tokens;
  hybrid_forget_x(m, s);
}

/* ---- questions --------------------------------------------------------------------- */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct hybrid *m = self;
  if (tier > LLS_TIER_HOST)
    return -ENOTSUP;
  const struct chains *b = &m->blocks;
  bool device = tier == LLS_TIER_DEVICE;
  out->total_units = device ? b->n_slabs * b->slab_units : 0;
  out->free_units = device ? b->n_free * b->slab_units : 0;
  out->reserved_units = device && m->journal.open && m->free_at_begin > b->n_free
                            ? (m->free_at_begin - b->n_free) * b->slab_units
                            : 0;
  return 0;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct hybrid *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  if (!is_offered(m, form))
    return -ENOTSUP;
  out->new_units =
      m->blocks.slab_units * hybrid_slabs_needed(m, s, tokens, hybrid_form(m, s, form));
  out->restore_units = 0;
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct hybrid *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  uint32_t units = s->held[LIST_KV] * m->blocks.units[LIST_KV] +
                   s->held[LIST_X] * m->blocks.units[LIST_X];
  *out = (struct lls_cache_info){
      .size = out->size,
      .residency = s->row != LLS_POL_NIL ? LLS_RESIDENT_DEVICE : LLS_RESIDENT_NONE,
      .form = s->form,
      .device_units = units,
      .owned_units = units,
      .cached_tokens = s->cached,
      .free_slots = s->held[list_in(s->form)] * m->block_tokens - s->cached,
  };
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct hybrid *m = self;
  const struct sequence *s = sequence_of(m, r);
  if (s == NULL || s->row == LLS_POL_NIL)
    return -EINVAL;
  enum list list = list_in(s->form);
  m->tables[r->slot] =
      (struct lls_group_list){.entries = list_of(m, s, list),
                              .restored = list_of(m, s, LIST_X),
                              .n_entries = s->held[list],
                              .n_restored = list == LIST_KV ? s->held[LIST_X] : 0};
  *out = (struct lls_block_table){.n_groups = 1, .lists = &m->tables[r->slot]};
  return 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  (void)self;
  *out = NULL;
  return 0;
}

static uint32_t preempt_modes(void *self)
{
  (void)self;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER;
}

/* Extra time per restored token and step, by the core's cost model. */
static int64_t restore_ns(const struct hybrid *m)
{
  const struct lls_cost *cost = m->host->cost;
  struct lls_iteration_shape shape = {.size = sizeof shape};
  const uint64_t tokens = 4096;
  int64_t without = cost->iteration_ns(cost->context, &shape);
  shape.hidden_tokens = tokens;
  int64_t with = cost->iteration_ns(cost->context, &shape);
  if (with == LLS_NEVER || without == LLS_NEVER || with < without)
    return LLS_NEVER;
  return (with - without) / (int64_t)tokens;
}

static int forms(void *self, struct lls_form_info *out, size_t max)
{
  const struct hybrid *m = self;
  const struct lls_form_info all[] = {
      {.form = LLS_FORM_KV, .ratio = 1},
      {.form = LLS_FORM_HIDDEN,
       .ratio = hidden_of(m) != NULL ? (double)hidden_of(m)->ratio : 1,
       .restore_ns = restore_ns(m),
       .why_not = m->offers_hidden ? NULL : m->why_not},
  };
  size_t n = max < 2 ? max : 2;
  memcpy(out, all, n * sizeof *all);
  return (int)n;
}

static void stats(void *self, const struct lls_sink *sink)
{
  const struct hybrid *m = self;
  uint32_t kv = 0, x = 0;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    kv += m->blocks.units[LIST_KV] * m->sequences[i].held[LIST_KV];
    x += m->blocks.units[LIST_X] * m->sequences[i].held[LIST_X];
  }
  sink->number(sink->context, "units", m->blocks.n_slabs * m->blocks.slab_units);
  sink->number(sink->context, "units_free", m->blocks.n_free * m->blocks.slab_units);
  sink->number(sink->context, "units_kv", kv);
  sink->number(sink->context, "units_hidden", x);
}

static int audit(void *self, const struct lls_sink *sink)
{
  return hybrid_audit(self, sink);
}

/* ---- reload ------------------------------------------------------------------------ */

static int export_state(void *self, struct lls_blob *out)
{
  return hybrid_export(self, out);
}

static int import_state(void *self, const struct lls_blob *in)
{
  int rc = hybrid_import(self, in);
  if (rc < 0)
    make_empty(self);
  return rc;
}

/* Accepts all reloadable parameters: nothing cached depends on one. */
static int reconfigure(void *self, const void *params)
{
  struct hybrid *m = self;
  m->params = *(const struct params *)params;
  decide_offer(m);
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(struct params, form, "kv", "kv|hidden",
                     "form of a sequence whose scheduler has no wish",
                     .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, max_eta, "0.75", 0, 1, "",
                    "hidden form is offered where X takes at most this part of the bytes "
                    "of K and V",
                    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL,
    .forms = 1u << LLS_FORM_KV | 1u << LLS_FORM_HIDDEN,
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
    .forms = forms,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "hybrid",
    .version = "1.0",
    .description = "keys and values, or hidden states in half the memory (Apt-Serve)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
