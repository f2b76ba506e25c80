/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hybrid cache manager's interface to the core: parameters, creation, the
 * questions that the usual policy (policy/face.h) answers otherwise. See hybrid.h for the
 * idea, README for the paper.
 */
#include "hybrid.h"

#include <llmserve/policy/face.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lls_pol_sequence *sequence_of(struct hybrid *m, const struct lls_request *r)
{
  return lls_pol_rows_find(&m->side.rows, r);
}

/* ---- life -------------------------------------------------------------------------- */

/* How the engine keeps X; NULL: it has no hidden form. */
static const struct lls_group_form *hidden_of(const struct hybrid *m)
{
  return m->engine.n_groups > LIST_X ? m->lists[LIST_X].forms : NULL;
}

/* The side sees a FULL group for each form: a sequence keeps its blocks until it ends. */
static void make_lists(struct hybrid *m, const struct lls_host *host)
{
  const struct lls_group *group = host->engine->groups[0];
  const struct lls_group_form *forms[N_LISTS] = {
      group->forms, lls_group_form_of(group, LLS_FORM_HIDDEN)};
  memcpy(&m->host, host, lls_pol_min(host->size, (uint32_t)sizeof m->host));
  memcpy(&m->engine, host->engine,
         lls_pol_min(host->engine->size, (uint32_t)sizeof m->engine));
  m->host.engine = &m->engine;
  m->engine.n_groups = forms[LIST_X] != NULL ? N_LISTS : 1;
  m->engine.groups = m->groups;
  for (uint32_t list = 0; list < m->engine.n_groups; list++) {
    m->lists[list] = (struct lls_group){.size = sizeof m->lists[list],
                                        .kind = LLS_GROUP_FULL,
                                        .layers = group->layers,
                                        .n_forms = 1,
                                        .forms = forms[list]};
    m->groups[list] = &m->lists[list];
  }
  m->side.one_group = true;
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
    m->host.log(m->host.context, LLS_LOG_INFO,
                "all sequences stay in KV form, hidden form saves nothing here: %s",
                m->why_not);
}

static void destroy(void *self)
{
  struct hybrid *m = self;
  lls_pol_side_destroy(&m->side);
  free(m);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct lls_cache_geometry device = *g;
  struct hybrid *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->params = *(const struct params *)params;
  m->side.writer = "hybrid 4"; /* and its version */
  make_lists(m, host);
  device.host_units = 0; /* nothing is swapped */
  int rc = lls_pol_side_create(&m->side, &m->host, &device);
  if (rc < 0) {
    destroy(m);
    return rc;
  }
  decide_offer(m);
  *self = m;
  return 0;
}

/* ---- the transaction --------------------------------------------------------------- */

static bool is_offered(const struct hybrid *m, uint32_t form)
{
  return form == LLS_FORM_NONE || form == LLS_FORM_KV ||
         (form == LLS_FORM_HIDDEN && m->offers_hidden);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct hybrid *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  (void)flags; /* nothing here can be displaced by slots */
  if (s == NULL || !m->side.journal.open)
    return -EINVAL;
  if (!is_offered(m, form))
    return -ENOTSUP;
  return hybrid_reserve(m, s, tokens, hybrid_form(m, s, form));
}

static void computed(void *self, const struct lls_request *r, uint32_t cached_tokens)
{
  struct hybrid *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL || s->row == LLS_POL_NIL || m->side.journal.open)
    return;
  s->cached = cached_tokens;
  hybrid_forget_x(m, s);
}

/* ---- questions --------------------------------------------------------------------- */

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct hybrid *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  if (!is_offered(m, form))
    return -ENOTSUP;
  out->new_units = hybrid_units_needed(m, s, tokens, hybrid_form(m, s, form));
  out->restore_units = 0;
  return 0;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  struct hybrid *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  uint32_t units = lls_pol_side_units(&m->side, s), form = hybrid_form_of(m, s);
  enum list list = form == LLS_FORM_HIDDEN ? LIST_X : LIST_KV;
  *out = (struct lls_cache_info){
      .size = out->size,
      .residency = form != LLS_FORM_NONE ? LLS_RESIDENT_DEVICE : LLS_RESIDENT_NONE,
      .form = form,
      .device_units = units,
      .owned_units = units,
      .cached_tokens = s->cached,
      .free_slots = held_of(m, s, list) * m->side.block_tokens - s->cached,
  };
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct hybrid *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  struct lls_pol_rows *rows = &m->side.rows;
  if (s == NULL || s->row == LLS_POL_NIL)
    return -EINVAL;
  enum list list = hybrid_form_of(m, s) == LLS_FORM_HIDDEN ? LIST_X : LIST_KV;
  struct lls_group_list *shown = &rows->tables[(size_t)r->slot * rows->n_groups];
  *shown = (struct lls_group_list){.entries = lls_pol_rows_entries(rows, s, list),
                                   .n_entries = held_of(m, s, list)};
  if (list == LIST_KV && held_of(m, s, LIST_X) > 0) {
    shown->restored = lls_pol_rows_entries(rows, s, LIST_X);
    shown->n_restored = held_of(m, s, LIST_X);
  }
  *out = (struct lls_block_table){.n_groups = 1, .lists = shown};
  return 0;
}

/* Extra time per restored token and step, by the core's cost model. */
static int64_t restore_ns(const struct hybrid *m)
{
  const struct lls_cost *cost = m->host.cost;
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
  const struct lls_pol_slabs *slabs = &m->side.slabs[LLS_TIER_DEVICE];
  double units[N_LISTS] = {0};
  for (uint32_t list = 0; list < m->side.n_groups; list++) {
    const struct lls_pol_slab_class *c =
        &slabs->classes[m->side.kinds[LLS_TIER_DEVICE][list]];
    units[list] = c->n_used * c->block_units;
  }
  sink->number(sink->context, "units", lls_pol_slabs_total(slabs));
  sink->number(sink->context, "units_free", slabs->n_free_slabs * slabs->slab_units);
  sink->number(sink->context, "units_kv", units[LIST_KV]);
  sink->number(sink->context, "units_hidden", units[LIST_X]);
}

/* ---- reload ------------------------------------------------------------------------ */

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
    LLS_POL_FACE_ALWAYS,
    .caps = &caps,
    .create = create,
    .destroy = destroy,
    .begin = lls_pol_face_begin,
    .commit = lls_pol_face_commit,
    .admit = lls_pol_face_admit,
    .release = lls_pol_face_release,
    .need = need,
    .reserve = reserve,
    .preempt = lls_pol_face_preempt,
    .preempt_modes = lls_pol_face_preempt_modes,
    .computed = computed,
    .info = info,
    .table = table,
    .forms = forms,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = lls_pol_face_export,
    .import_state = lls_pol_face_import,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "hybrid",
    .version = "2.0",
    .description = "keys and values, or hidden states in half the memory (Apt-Serve)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
