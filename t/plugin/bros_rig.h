/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a single plan of bros: requests made by the test, memory as a number of tokens,
 * and the cost model of the worked examples.
 */
#ifndef LLS_T_PLUGIN_BROS_RIG_H
#define LLS_T_PLUGIN_BROS_RIG_H

#include "t/tap.h"

#include "plugins/schedulers/bros/bros.h"

#include <math.h>

/* blocks have 16 tokens and two units */
enum { MOST = 24, NOW_S = 100, UNIT_TOKENS = 8 };

struct taken { /* the calls of the transaction, in order */
  uint32_t request, tokens;
  bool preempted;
};

struct rig {
  struct bros b;
  struct lls_host host;
  struct lls_engine_caps engine;
  struct lls_cache_service cache;
  struct lls_step_view view;
  struct lls_plan plan;
  struct lls_plan_item items[MOST];
  struct lls_request r[MOST]; /* indexed by id */
  uint64_t user[MOST][LLS_USER_WORDS];
  const struct lls_request *running[MOST], *waiting[MOST], *preempted[MOST];
  uint32_t n;
  uint32_t capacity, used; /* in tokens */
  struct taken taken[2 * MOST];
  uint32_t n_taken;
  bool has[MOST];
  struct bros_candidate candidates[MOST + 1];
  uint32_t host_units, host_free;
  bool shares[MOST]; /* all its blocks are shared with real-time requests */
  struct bros_candidate *lists[4][MOST + 1];
};

static uint32_t mark(void *context)
{
  return ((struct rig *)context)->n_taken;
}

static inline int rollback(void *context, uint32_t to)
{
  struct rig *g = context;
  assert_true(to <= g->n_taken);
  while (g->n_taken > to) {
    const struct taken *t = &g->taken[--g->n_taken];
    g->used += t->preempted ? t->tokens : -t->tokens;
    g->has[t->request] = false;
  }
  return 0;
}

static inline int reserve(void *context, const struct lls_request *r, uint32_t tokens,
                          uint32_t form, uint32_t flags)
{
  struct rig *g = context;
  uint32_t need = tokens + r->missing_tokens;
  assert_false(g->has[r->id]); /* at most once in a plan */
  assert_int_equal(form, LLS_FORM_NONE);
  assert_int_equal(flags, bros_is_realtime(r) ? LLS_MAY_DISPLACE : 0);
  if (lls_request_length(r) > g->capacity)
    return LLS_RESERVE_NEVER;
  if (g->used + need > g->capacity)
    return LLS_RESERVE_LATER;
  g->used += need;
  g->has[r->id] = true;
  g->taken[g->n_taken++] = (struct taken){(uint32_t)r->id, need, false};
  return LLS_RESERVE_OK;
}

static inline int preempt(void *context, const struct lls_request *r, uint32_t mode)
{
  struct rig *g = context;
  uint32_t held = r->cached_tokens - r->missing_tokens;
  assert_int_equal(mode, LLS_PREEMPT_RECOMPUTE);
  assert_false(g->has[r->id]);
  assert_true(held > 0);
  g->used -= held;
  g->has[r->id] = true;
  g->taken[g->n_taken++] = (struct taken){(uint32_t)r->id, held, true};
  return 0;
}

static inline int capacity(void *context, uint32_t tier, struct lls_capacity *out)
{
  const struct rig *g = context;
  bool on_host = tier == LLS_TIER_HOST;
  out->total_units = on_host ? g->host_units : g->capacity / UNIT_TOKENS;
  out->free_units = on_host ? g->host_free : (g->capacity - g->used) / UNIT_TOKENS;
  return 0;
}

static inline int info(void *context, const struct lls_request *r,
                       struct lls_cache_info *out)
{
  const struct rig *g = context;
  out->missing_tokens = r->missing_tokens;
  out->owned_units = g->shares[r->id] ? 0 : r->cached_tokens - r->missing_tokens;
  return 0;
}

static uint32_t prefix(void *context, const struct lls_request *r)
{
  (void)context, (void)r;
  return 0;
}

/* The cost model of the worked examples. */
static const struct bros_cost example_cost = {.prefill = {1e-4, 2e-9, 4e-3},
                                              .decode = {5e-5, 1e-9, 12e-3},
                                              .c0 = 2e-5,
                                              .known = true};

static const struct bros_params paper = {.ttft_slo = 400000000,
                                         .tpot_slo = 200000000,
                                         .token_group = 1,
                                         .b_base = 128,
                                         .b_max = 1024,
                                         .starve = 10 * LLS_NS_PER_S,
                                         .replace = true,
                                         .look = 4096};

static inline void rig_init(struct rig *g)
{
  *g = (struct rig){.capacity = 1000000};
  g->engine = (struct lls_engine_caps){.max_step_tokens = 100000,
                                       .max_sequences = MOST,
                                       .max_context = 100000,
                                       .max_requests = MOST,
                                       .mixed_batch = true,
                                       .chunked_prefill = true};
  g->host.engine = &g->engine;
  g->cache = (struct lls_cache_service){.size = sizeof g->cache,
                                        .block_tokens = 16,
                                        .context = g,
                                        .capacity = capacity,
                                        .mark = mark,
                                        .rollback = rollback,
                                        .reserve = reserve,
                                        .preempt = preempt,
                                        .info = info,
                                        .prefix = prefix};
  g->b = (struct bros){.params = paper, .cost = example_cost, .t_avg = 0.02};
  g->b.base.host = &g->host;
  g->b.fit = (struct lls_pol_fit){
      .block_tokens = 16, .first_units = 2, .block_units = 2, .growth_units = 2};
  g->b.candidates = g->candidates;
  g->b.rt_ready.items = g->lists[0];
  g->b.be_ready.items = g->lists[1];
  g->b.dropped.items = g->lists[2];
  g->b.arriving.items = g->lists[3];
  assert_int_equal(lls_pol_heap_init(&g->b.realtime, MOST + 1), 0);
  assert_int_equal(lls_pol_heap_init(&g->b.best_effort, MOST + 1), 0);
}

static inline void rig_free(struct rig *g)
{
  lls_pol_heap_free(&g->b.realtime);
  lls_pol_heap_free(&g->b.best_effort);
}

/* Adds a request that has waited `t` seconds since its last token, with `context`
 * cached tokens, `missing` of which are on the host; with no context it is a prompt of
 * `tokens`. */
static inline struct lls_request *put(struct rig *g, uint32_t class, double t,
                                      uint32_t context, uint32_t missing, uint32_t tokens)
{
  struct lls_request *r = &g->r[g->n];
  int64_t since_ns = NOW_S * LLS_NS_PER_S - (int64_t)(t * 1e9 + 0.5);
  *r = (struct lls_request){
      .id = g->n,
      .request_class = class,
      .state = context == 0  ? LLS_WAITING
               : missing > 0 ? LLS_PREEMPTED
                             : LLS_DECODING,
      .prompt_tokens = context > 0 ? context : tokens,
      .generated_tokens = context > 0,
      .cached_tokens = context,
      .missing_tokens = missing,
      .arrival_ns = since_ns,
      .last_token_ns = since_ns,
      .slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER},
      .user = g->user[g->n],
  };
  g->used += context - missing;
  g->n++;
  return r;
}

static inline struct lls_request *decode(struct rig *g, uint32_t class, double t,
                                         uint32_t context)
{
  return put(g, class, t, context, 0, 1);
}

static inline struct lls_request *prompt(struct rig *g, uint32_t class, double t,
                                         uint32_t tokens)
{
  return put(g, class, t, 0, 0, tokens);
}

enum { RT = LLS_CLASS_REALTIME, BE = LLS_CLASS_BEST_EFFORT };

/* Makes one plan of the added requests, with at most b_curr sequences. */
static inline void pack(struct rig *g, uint32_t b_curr)
{
  struct lls_step_view *v = &g->view;
  struct lls_pol_step s;
  *v = (struct lls_step_view){.size = sizeof *v,
                              .preempt_mode = LLS_PREEMPT_RECOMPUTE,
                              .now_ns = NOW_S * LLS_NS_PER_S,
                              .running = g->running,
                              .waiting = g->waiting,
                              .preempted = g->preempted,
                              .max_tokens = g->engine.max_step_tokens,
                              .max_sequences = MOST,
                              .cache = &g->cache};
  for (uint32_t i = 0; i < g->n; i++)
    if (g->r[i].state == LLS_WAITING)
      g->waiting[v->n_waiting++] = &g->r[i];
    else if (g->r[i].state == LLS_PREEMPTED)
      g->preempted[v->n_preempted++] = &g->r[i];
    else
      g->running[v->n_running++] = &g->r[i];
  g->plan =
      (struct lls_plan){.size = sizeof g->plan, .max_items = MOST, .items = g->items};
  rollback(g, 0);
  g->b.seats = b_curr;
  lls_pol_step_begin(&s, v, &g->plan, 0);
  s.drafts.least = 0; /* any guess is likely enough */
  s.draft_tokens = v->max_tokens;
  bros_look(&g->b, v);
  g->b.guaranteed = bros_is_guaranteed(&g->b);
  bros_pack(&g->b, &s);
  bros_emit(&g->b, &s);
}

static const struct lls_plan_item *item_of(const struct rig *g, uint64_t id)
{
  for (uint32_t i = 0; i < g->plan.n_items; i++)
    if (g->items[i].request == id)
      return &g->items[i];
  return NULL;
}

static inline bool runs(const struct rig *g, uint64_t id)
{
  const struct lls_plan_item *item = item_of(g, id);
  return item != NULL && item->kind == LLS_PLAN_RUN;
}

/* Expects items such as "0 1 -2 x3 ^4": runs, preemptions, rejections, uploads, in the
 * plan's order. */
static inline void expect_items(const struct rig *g, const char *expected)
{
  char text[256] = "";
  static const char *const before[] = {[LLS_PLAN_RUN] = "",
                                       [LLS_PLAN_PREEMPT] = "-",
                                       [LLS_PLAN_REJECT] = "x",
                                       [LLS_PLAN_UPLOAD] = "^"};
  for (uint32_t i = 0; i < g->plan.n_items; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s%llu",
             i > 0 ? " " : "", before[g->items[i].kind],
             (unsigned long long)g->items[i].request);
  assert_string_equal(text, expected);
}

static inline void expect_number(double value, double expected, double within)
{
  if (!(fabs(value - expected) <= within))
    fail_msg("%.9g, expected %.9g", value, expected);
}

#endif
