/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small cache manager for groups of all kinds, with prefixes, a host and int8 blocks;
 * and eleven ways to be wrong about groups, by its parameter, each of which
 * llmserve-plugin-check must see. Here are the transaction, what it says of itself, and
 * its state; cache_groups_parts.h has the rest.
 */
#include "t/sdk/cache_groups_parts.h"

/* ---- the transaction -------------------------------------------------------------- */

static int begin(void *self)
{
  ((struct manager *)self)->n_copies = 0;
  return base_begin(self);
}

static int admit(void *self, const struct lls_request *r)
{
  ((struct manager *)self)->sequences[r->slot] = (struct sequence){.admitted = 1};
  return 0;
}

/* ---- what it says ----------------------------------------------------------------- */

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct manager *m = self;
  if (tier > LLS_TIER_HOST)
    return -ENOTSUP;
  out->total_units = out->free_units = units_of(m, tier);
  out->reserved_units = 0;
  for (uint32_t u = 0; u < units_of(m, tier); u++) {
    uint32_t owner = m->units[tier][u].owner;
    out->free_units -= owner > 0 && m->units[tier][owner - 1].holders > 0;
  }
  return 0;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  const struct manager *m = self;
  uint32_t units = units_for(m, r, tokens, true);
  bool back = sequence_of(m, r)->where == ON_HOST;
  (void)form;
  out->new_units = units;
  out->restore_units = back ? units_for(m, r, tokens, false) - units : 0;
  return 0;
}

static void add_list(const struct manager *m, uint32_t slot, uint32_t group,
                     struct lls_cache_info *out)
{
  const struct sequence *s = &m->sequences[slot];
  const struct list *l = list_of(m, slot, group);
  uint32_t tier = s->where == ON_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  for (uint32_t i = l->gone; i < l->past; i++) {
    const struct unit *b = &m->units[tier][*block_of(m, slot, group, i)];
    uint32_t units = size_of(m, group, b->form);
    *(tier == LLS_TIER_HOST ? &out->host_units : &out->device_units) += units;
    out->owned_units += b->holders == 1 && tier == LLS_TIER_DEVICE ? units : 0;
    if (group == 0 && b->holders > 1 && !is_state(m, group))
      out->shared_tokens = min(out->shared_tokens + m->g.block_tokens, s->cached);
  }
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  const struct manager *m = self;
  const struct sequence *s = sequence_of(m, r);
  uint32_t size = out->size;
  if (!s->admitted)
    return -ENOENT;
  *out = (struct lls_cache_info){
      .size = size,
      .residency = s->where == NOWHERE     ? LLS_RESIDENT_NONE
                   : s->where == ON_DEVICE ? LLS_RESIDENT_DEVICE
                                           : LLS_RESIDENT_HOST,
      .form = s->where == NOWHERE ? LLS_FORM_NONE : LLS_FORM_KV,
      .cached_tokens = s->cached,
      .missing_tokens = s->where == ON_HOST ? s->cached : 0,
  };
  for (uint32_t group = 0; group < m->n_groups; group++)
    add_list(m, r->slot, group, out);
  if (s->where == ON_DEVICE && !is_state(m, 0))
    out->free_slots = list_of(m, r->slot, 0)->past * m->g.block_tokens - s->cached;
  return 0;
}

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  struct manager *m = self;
  struct lls_group_list *tables = &m->tables[r->slot * m->n_groups];
  for (uint32_t group = 0; group < m->n_groups; group++) {
    const struct list *l = list_of(m, r->slot, group);
    bool state = is_state(m, group);
    size_t row = block_of(m, r->slot, group, 0) - m->blocks;
    for (uint32_t i = l->gone; i < l->past; i++) {
      uint32_t unit = m->blocks[row + i];
      m->entries[row + i] = (struct lls_block_entry){
          .block = unit,
          .first_token = state ? sequence_of(m, r)->cached : i * m->g.block_tokens,
          .count = (uint16_t)(state ? 0 : m->g.block_tokens),
          .form = (uint8_t)m->units[LLS_TIER_DEVICE][unit].form,
      };
    }
    tables[group] = (struct lls_group_list){.entries = &m->entries[row + l->gone],
                                            .n_entries = l->past - l->gone};
  }
  *out = (struct lls_block_table){.n_groups = m->n_groups, .lists = tables};
  return 0;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  struct manager *m = self;
  *out = m->copies;
  return m->n_copies;
}

static uint32_t preempt_modes(void *self)
{
  const struct manager *m = self;
  return 1u << LLS_PREEMPT_RECOMPUTE | (m->g.host_units > 0 ? 1u << LLS_PREEMPT_SWAP : 0);
}

/* All words, those of units that no block has left out. */
static int audit(void *self, const struct lls_sink *sink)
{
  const struct manager *m = self;
  char line[96];
  for (uint32_t tier = 0; tier <= LLS_TIER_HOST; tier++)
    for (uint32_t u = 0; u < units_of(m, tier); u++) {
      const struct unit *b = &m->units[tier][u];
      if (b->owner != u + 1)
        continue;
      snprintf(line, sizeof line, "tier %u unit %u: %u holders, form %u, known %u", tier,
               u, b->holders, b->form, b->known);
      sink->text(sink->context, line);
    }
  for (uint32_t i = 0; i < m->base.n_slots * m->n_groups; i++) {
    const struct sequence *s = &m->sequences[i / m->n_groups];
    const struct list *l = &m->lists[i];
    if (!s->admitted)
      continue;
    snprintf(line, sizeof line, "slot %u: %u, %u cached, group %u: %u to %u",
             i / m->n_groups, s->where, s->cached, i % m->n_groups, l->gone, l->past);
    sink->text(sink->context, line);
  }
  return 0;
}

/* ---- a state ---------------------------------------------------------------------- */

static uint32_t sum_of(const uint32_t *words, uint32_t n)
{
  uint32_t sum = 2166136261u;
  for (uint32_t i = 0; i < n; i++)
    sum = (sum ^ words[i]) * 16777619u;
  return sum;
}

static int export_state(void *self, struct lls_blob *out)
{
  const struct manager *m = self;
  uint32_t *words = malloc((m->n_words + 2) * sizeof *words);
  if (words == NULL)
    return -ENOMEM;
  words[0] = m->n_groups;
  memcpy(words + 1, m->words, m->n_words * sizeof *words);
  words[m->n_words + 1] = sum_of(words, m->n_words + 1);
  *out = (struct lls_blob){1, (m->n_words + 2) * sizeof *words, words};
  return 0;
}

static int import_state(void *self, const struct lls_blob *in)
{
  struct manager *m = self;
  const uint32_t *words = in->data;
  if (in->version != 1 || in->bytes != (m->n_words + 2) * sizeof *words ||
      words[0] != m->n_groups || words[m->n_words + 1] != sum_of(words, m->n_words + 1))
    return -ENOTSUP;
  memcpy(m->words, words + 1, m->n_words * sizeof *words);
  for (uint32_t slot = 0; m->mutant == HALF_RELOAD && slot < m->base.n_slots; slot++)
    if (m->n_groups > 1 && list_of(m, slot, 1)->past > list_of(m, slot, 1)->gone + 1) {
      uint32_t *at = block_of(m, slot, 1, list_of(m, slot, 1)->gone), first = at[0];
      at[0] = at[1];
      at[1] = first;
    }
  return 0;
}

/* ---- life ------------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct manager *m = self;
  free(m->words);
  free(m->copies);
  free(m->tables);
  free(m->entries);
  base_close(&m->base);
  free(m);
}

/* Where each array begins among the words. */
static bool make_words(struct manager *m)
{
  const uint32_t per_unit = sizeof(struct unit) / sizeof(uint32_t);
  const uint32_t per_sequence = sizeof(struct sequence) / sizeof(uint32_t);
  uint32_t units = m->g.device_units + m->g.host_units,
           lists = m->base.n_slots * m->n_groups;
  m->n_words =
      1 + units * per_unit + m->base.n_slots * per_sequence + lists * (2 + m->row);
  m->words = calloc(m->n_words, sizeof *m->words);
  m->tables = calloc(lists, sizeof *m->tables);
  m->entries = calloc((size_t)lists * m->row, sizeof *m->entries);
  if (m->words == NULL || m->tables == NULL || m->entries == NULL)
    return false;
  m->clock = m->words;
  m->units[LLS_TIER_DEVICE] = (struct unit *)(m->words + 1);
  m->units[LLS_TIER_HOST] = m->units[LLS_TIER_DEVICE] + m->g.device_units;
  m->sequences = (struct sequence *)(m->units[LLS_TIER_HOST] + m->g.host_units);
  m->lists = (struct list *)(m->sequences + m->base.n_slots);
  m->blocks = (uint32_t *)(m->lists + lists);
  return true;
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct manager *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->host = host;
  m->g = *g;
  m->mutant = ((const struct params *)params)->mutant;
  m->n_groups = host->engine->n_groups;
  m->row = (host->engine->max_context + g->block_tokens - 1) / g->block_tokens + 1;
  if (base_open(&m->base, host, g, 64) < 0 || !make_words(m)) {
    destroy(m);
    return host->fail(host->context, -ENOMEM, "no memory for %u units", g->device_units);
  }
  *self = m;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_CHOICE(
        struct params, mutant, "nothing",
        "nothing|in_place|early|half_hit|other_position|by_tokens|rejected|overlap|"
        "before_copy|half_rollback|half_swap|half_reload",
        "what it does wrong"),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL | 1u << LLS_GROUP_WINDOW | 1u << LLS_GROUP_CHUNK |
             1u << LLS_GROUP_STATE,
    .groups = 8,
    .forms = 1u << LLS_FORM_KV | 1u << LLS_FORM_INT8 | 1u << LLS_FORM_STATE,
};

static const struct lls_cache_vtable vtable = {
    BASE_OWN,
    .caps = &caps,
    .create = create,
    .release = release,
    .table = table,
    .begin = begin,
    .mark = base_mark,
    .rollback = base_rollback,
    .commit = base_commit,
    .copies = copies,
    .preempt_modes = preempt_modes,
    .prefix = prefix,
    .export_state = export_state,
    .import_state = import_state,
};

BASE_PLUGIN("groups", "groups of all kinds, and what can be wrong with them", &vtable,
            LLS_PLUGIN_PARAMS(parameters, struct params));
