/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manager of the usual policy (policy/side.h), called through its vtable's functions,
 * beside a memory that knows what each slot of each block holds: steps write what a
 * token's contents depend on, copies copy it, and what a step reads must be there.
 */
#ifndef LLS_T_SIDE_RIG_H
#define LLS_T_SIDE_RIG_H

#include <llmserve/policy/face.h> /* before cmocka, which has a macro `fail` */

#include "t/dice.h"
#include "t/unit/audit_text.h"

#define REQUESTS 8
#define CONTEXT  96
#define TOKENS   4 /* of a block */
#define UNITS    400
#define KEYS     (CONTEXT / TOKENS)

struct rig_request {
  struct lls_request view;
  struct lls_key keys[KEYS];
  uint64_t contents[CONTEXT];   /* of each token: of it and all before */
  uint32_t run;                 /* tokens of this step */
  struct lls_block_table table; /* of this step, which reads it until computed */
  uint64_t table_sum;
  bool alive;
};

struct rig_slot { /* what a token's slot in a block holds */
  uint64_t contents;
  uint32_t group;
};

struct rig {
  struct lls_host host;
  struct lls_engine_caps engine;
  const struct lls_group *groups[LLS_POL_MAX_GROUPS];
  struct lls_cache_geometry geometry;
  struct lls_pol_side *side;
  struct rig_request requests[REQUESTS];
  struct rig_slot memory[LLS_POL_TIERS][UNITS][TOKENS]; /* at a block's first unit */
  uint32_t owner[LLS_POL_TIERS][UNITS]; /* first unit of the block there */
  struct dice dice;
  uint64_t ids;
  int64_t now_ns;
  bool alone; /* no prefixes are shared or kept */
  uint32_t most_leaving;
  uint32_t hits, swaps, moves, evicted, made_small, retained,
      from_host; /* that there were any */
};

static inline void rig_count(void *context, const char *event, double n)
{
  struct rig *r = context;
  r->moves += strcmp(event, "units_copied") == 0 ? (uint32_t)n : 0;
  r->evicted += strcmp(event, "blocks_evicted") == 0 ? (uint32_t)n : 0;
}

static inline int64_t rig_now(void *context)
{
  return ((struct rig *)context)->now_ns;
}

/* The state as text, the caller's to free. */
static inline char *rig_audit(struct rig *r)
{
  char *text = NULL;
  struct lls_sink sink = {.context = &text, .text = audit_text_add};
  assert_int_equal(lls_pol_face_audit(r->side, &sink), 0);
  return text;
}

static inline struct lls_pol_side *rig_side(struct rig *r)
{
  struct lls_pol_side *side = calloc(1, sizeof *side);
  side->converts = side->shares_host = true;
  side->writer = "rig 1";
  assert_int_equal(lls_pol_side_create(side, &r->host, &r->geometry), 0);
  side->shares = !r->alone;
  side->most_leaving = r->most_leaving;
  return side;
}

/* full: the forms of full blocks on the device and on the host. */
static inline void rig_make(struct rig *r, const struct lls_group *groups, uint32_t n,
                            uint32_t host_units, const uint32_t full[2], uint64_t seed)
{
  *r = (struct rig){.dice = {seed}, .alone = seed % 3 == 0};
  for (uint32_t i = 0; i < n; i++)
    r->groups[i] = &groups[i];
  r->engine = (struct lls_engine_caps){.size = sizeof r->engine,
                                       .max_context = CONTEXT,
                                       .max_step_tokens = 24,
                                       .max_sequences = REQUESTS,
                                       .max_requests = REQUESTS,
                                       .n_groups = n,
                                       .groups = r->groups};
  r->host = (struct lls_host){.size = sizeof r->host,
                              .context = r,
                              .engine = &r->engine,
                              .now = rig_now,
                              .fail = audit_text_fail,
                              .count = rig_count};
  r->geometry = (struct lls_cache_geometry){.size = sizeof r->geometry,
                                            .block_tokens = TOKENS,
                                            .unit_bytes = 4096,
                                            .device_units = dice(&r->dice, 90, UNITS),
                                            .host_units = host_units,
                                            .device_form = full[0],
                                            .host_form = full[1]};
  memset(r->owner, 0xff, sizeof r->owner);
  r->side = rig_side(r);
}

static inline void rig_end(struct rig *r)
{
  lls_pol_side_destroy(r->side);
  free(r->side);
}

/* ---- requests ------------------------------------------------------------------- */

/* One of three families, like the others of it up to some token. */
static inline void rig_submit(struct rig *r, struct rig_request *q)
{
  uint32_t family = dice(&r->dice, 1, 3), alike = dice(&r->dice, 0, CONTEXT);
  uint32_t prompt = dice(&r->dice, 1, 60);
  uint64_t before = family;
  *q = (struct rig_request){.alive = true};
  q->view = (struct lls_request){.id = ++r->ids,
                                 .slot = (uint32_t)(q - r->requests),
                                 .prompt_tokens = prompt,
                                 .max_new_tokens = CONTEXT - prompt,
                                 .keys = q->keys};
  for (uint32_t p = 0; p < CONTEXT; p++) {
    struct dice d = {before * 7919 + (p < alike ? p : p + 1000 * r->ids)};
    before = q->contents[p] = dice_next(&d);
    if (p % TOKENS == TOKENS - 1)
      q->keys[p / TOKENS] = (struct lls_key){{before, dice_next(&d)}};
  }
  q->view.n_keys = prompt / TOKENS;
  assert_int_equal(lls_pol_face_admit(r->side, &q->view), 0);
}

static inline void rig_release(struct rig *r, struct rig_request *q, bool keep)
{
  struct lls_release how = {.size = sizeof how, .flags = keep ? LLS_KEEP_PREFIX : 0};
  lls_pol_face_release(r->side, &q->view, &how);
  q->alive = false;
}

/* ---- memory --------------------------------------------------------------------- */

static inline uint32_t rig_units(const struct rig *r, uint32_t group, uint32_t form)
{
  return lls_group_form_of(r->groups[group], form)->block_units;
}

/* The block's units are its own from now on. */
static inline void rig_own(struct rig *r, uint32_t tier, uint32_t group, uint32_t form,
                           uint32_t unit)
{
  uint32_t end = unit + rig_units(r, group, form);
  assert_true(end <= (tier ? r->geometry.host_units : r->geometry.device_units));
  for (uint32_t u = unit; u < end; u++)
    r->owner[tier][u] = unit;
}

/* No other block has written into it since. */
static inline void rig_check_own(const struct rig *r, uint32_t tier, uint32_t group,
                                 uint32_t form, uint32_t unit)
{
  for (uint32_t u = unit; u < unit + rig_units(r, group, form); u++)
    assert_int_equal(r->owner[tier][u], unit);
}

static inline void rig_copy(struct rig *r)
{
  const struct lls_copy *copies;
  size_t n = lls_pol_face_copies(r->side, &copies);
  for (size_t i = 0; i < n; i++) {
    const struct lls_copy *c = &copies[i];
    if (c->source_form != c->target_form) /* others may move before they are written */
      rig_check_own(r, c->source_tier, c->group, c->source_form, c->source);
    rig_own(r, c->target_tier, c->group, c->target_form, c->target);
    r->made_small += c->source_form != c->target_form;
    for (uint32_t slot = 0; slot < c->n_slots; slot++)
      r->memory[c->target_tier][c->target][slot] =
          r->memory[c->source_tier][c->source][slot];
  }
}

static inline uint64_t rig_table_sum(const struct lls_block_table *t)
{
  uint64_t sum = t->n_groups;
  for (uint32_t group = 0; group < t->n_groups; group++)
    for (uint32_t i = 0; i < t->lists[group].n_entries; i++) {
      const struct lls_block_entry *e = &t->lists[group].entries[i];
      sum = 31 * (31 * (31 * sum + e->block) + e->first_token) + e->form;
    }
  return sum;
}

/* A step computes the request's tokens: it reads what its groups read, and writes. */
static inline void rig_compute(struct rig *r, struct rig_request *q, uint32_t cached)
{
  assert_int_equal(lls_pol_face_table(r->side, &q->view, &q->table), 0);
  const struct lls_block_table table = q->table;
  assert_int_equal(table.n_groups, r->engine.n_groups);
  for (uint32_t group = 0; group < table.n_groups; group++) {
    const struct lls_group_list *list = &table.lists[group];
    uint32_t first = lls_group_begin(r->groups[group], cached);
    for (uint32_t p = first; p < cached + q->run; p++) {
      uint32_t i = p / TOKENS - list->entries[0].first_token / TOKENS;
      assert_true(p >= list->entries[0].first_token && i < list->n_entries);
      const struct lls_block_entry *e = &list->entries[i];
      assert_true(e->first_token == p / TOKENS * TOKENS && e->count == TOKENS);
      struct rig_slot *slot = &r->memory[LLS_TIER_DEVICE][e->block][p % TOKENS];
      if (p >= cached) {
        assert_int_equal(e->form, LLS_FORM_NONE); /* only whole blocks become small */
        rig_own(r, LLS_TIER_DEVICE, group, e->form, e->block);
        *slot = (struct rig_slot){q->contents[p], group};
      }
      rig_check_own(r, LLS_TIER_DEVICE, group, e->form, e->block);
      assert_true(slot->contents == q->contents[p] && slot->group == group);
    }
  }
}

#endif
