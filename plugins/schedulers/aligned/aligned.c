/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of about the same length are decoded together (AlignedServe; see README). This
 * file makes the plan from the other files' parts, gives prompts and decodes their turns,
 * and has the parameters and statistics.
 */
#include "aligned.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the plan ---------------------------------------------------------------------- */

/* True if the pool is kept in the host memory of the prefill instances. */
static bool is_remote(const struct aligned *a, const struct lls_step_view *view)
{
  return a->params.pool == POOL_PREFILL && view->role != LLS_ROLE_MIXED &&
         view->preempt_mode == LLS_PREEMPT_SWAP && a->base.host->engine->async_transfers;
}

/* Returns the fraction of the cache that prompts may not use. It is kept for victims
 * and transfers under way, and, once the pool is full, for the next batch: the device
 * would otherwise fill up with requests that find no room on the host. */
static double keep_free(const struct aligned *a, const struct lls_step_view *view)
{
  struct lls_capacity host = {.size = sizeof host}, device = {.size = sizeof device};
  if (!is_remote(a, view))
    return 0;
  view->cache->capacity(view->cache->context, LLS_TIER_HOST, &host);
  view->cache->capacity(view->cache->context, LLS_TIER_DEVICE, &device);
  bool full = host.free_units < device.total_units / 2;
  return a->params.crb_frac + (full ? a->params.bmax_frac : 0);
}

static void prefill(struct aligned *a, const struct lls_step_view *view,
                    struct lls_plan *out)
{
  const struct lls_pol_prefiller_limits limits = {
      .tokens = (uint32_t)a->params.prefill_tokens,
      .batch = (uint32_t)a->params.prefill_batch,
      .keep_free = keep_free(a, view)};
  lls_pol_prefiller_plan(&a->prefiller, a->base.host, &limits, view, out);
}

static bool has_prompts(const struct aligned *a, const struct lls_step_view *view)
{
  return view->n_waiting > 0 || a->n_partial > 0;
}

/* Plans prompts unless decodes still have time due to them; if the kind whose turn it is
 * can't run, plans the other one. */
static void take_turns(struct aligned *a, struct lls_pol_step *s)
{
  bool prompts = has_prompts(a, s->view);
  bool decodes_first = !prompts || a->debt_ns > 0;
  if (decodes_first)
    decode_plan(a, s);
  uint32_t runs = s->runs;
  if (prompts && runs == 0 && s->preempted == 0)
    queue_plan(a, s);
  a->prompts_ran = s->runs > runs;
  if (!decodes_first && s->runs == 0)
    decode_plan(a, s);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct aligned *a = self;
  struct lls_pol_step s;
  if (view->role == LLS_ROLE_PREFILL) {
    prefill(a, view, out);
    return 0;
  }
  a->plans++;
  a->moves =
      view->preempt_mode == LLS_PREEMPT_SWAP && a->base.host->engine->async_transfers;
  a->ahead = a->moves && a->params.prefetch != PREFETCH_OFF;
  a->remote = is_remote(a, view);
  home_begin(a, view);
  lls_pol_step_begin(&s, view, out, a->params.watermark);
  lls_pol_step_drafts(&s, a->base.host->cost);
  members_begin(a, view);
  take_turns(a, &s);
  moves_plan(a, &s);
  lls_pol_step_end(&s);
  if (view->n_offered > 0 && out->idle_until_ns == LLS_NEVER)
    out->idle_until_ns = lls_time_after(view->now_ns, LLS_NS_PER_S / 1000);
  return 0;
}

/* A step of prompts of time t gives decodes the time t (1 - share) / share. */
static void on_step(void *self, const struct lls_step_report *report)
{
  struct aligned *a = self;
  double share = a->params.prefill_share;
  int64_t took_ns = report->ended_ns - report->started_ns;
  if (a->prompts_ran)
    a->debt_ns = (int64_t)((double)took_ns * (1 - share) / share);
  else
    a->debt_ns -= a->debt_ns < took_ns ? a->debt_ns : took_ns;
  members_on_step(a, report);
}

static void on_refused(void *self, const struct lls_request *r, uint32_t refusal)
{
  const struct aligned *a = self;
  if (lls_pol_prefiller_refused(r, refusal))
    lls_pol_scheduler_count(&a->base, "returned", 1);
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  out->needs = LLS_USES_ROLES;
  lls_pol_step_preferences(out, ((const struct aligned *)self)->params.preempt);
}

/* ---- figures ----------------------------------------------------------------------- */

static void stats(void *self, const struct lls_sink *sink)
{
  const struct aligned *a = self;
  sink->number(sink->context, "pool", a->tree.nodes[0].requests);
  sink->number(sink->context, "next", a->next.n);
  sink->number(sink->context, "spare", a->spare.n);
  sink->number(sink->context, "running", a->n_running);
}

static void dump(void *self, const struct lls_sink *sink)
{
  static const char *const places[] = {"queue", "pool", "next", "spare", "running"};
  const struct aligned *a = self;
  lls_pol_scheduler_dump(self, sink);
  for (uint32_t i = 0; i < a->base.host->engine->max_requests; i++) {
    const struct member *m = &a->members[i];
    char line[96];
    if (m->request == NULL || m->place == QUEUE)
      continue;
    snprintf(line, sizeof line, "request %" PRIu64 " %s batch %" PRIu32, m->id,
             places[m->place], m->place == RUNNING ? m->tag : 0);
    sink->text(sink->context, line);
  }
}

/* ---- parameters -------------------------------------------------------------------- */

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct aligned_params, len_max, "65536", 4, 1 << 20, "tokens",
                  "longest length of the tree; longer ones count as this one"),
    LLS_PARAM_INT(struct aligned_params, leaf_width, "16", 1, 1 << 20, "tokens",
                  "lengths of a leaf; len_max is a power of four times as long"),
    LLS_PARAM_FLOAT(struct aligned_params, bmax_frac, "0.4", 0.05, 0.95, "",
                    "Bmax, most blocks of a new batch as a part of the cache",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct aligned_params, fill_frac, "1", 0.05, 1, "",
                    "part of the cache up to which others join the running batch",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct aligned_params, class_frac, "0.25", 0, 1, "",
                    "part of the pool whose lengths are alike, if that is more than Bmax",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct aligned_params, rmin, "36", 1, 65536, "requests",
                  "Rmin, a batch of fewer is widened by the nearest lengths",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct aligned_params, rmin_frac, "0.5", 0, 1, "",
                    "Rmin is at most this part of the requests that Bmax blocks hold of "
                    "the lengths that wait; 0 is always rmin",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(struct aligned_params, expand, "full", "full|min",
                     "how far it is widened: until Bmax, or until Rmin",
                     .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_INT(struct aligned_params, switch_below, "36", 0, 65536, "requests",
                  "the next batch is due when fewer than these run, if switch_frac is 0",
                  .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct aligned_params, switch_frac, "0.5", 0, 1, "",
                    "the next batch replaces the running one when that holds less than "
                    "this part of the most it has held; 0: by switch_below",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct aligned_params, bring_at, "1.5", 1, 1000, "",
                    "the next batch's memory is brought when fewer than this times "
                    "what the next batch is due at",
                    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(struct aligned_params, victim, "longest", "longest|random",
                     "which request of a batch leaves when memory runs out",
                     .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_DURATION(struct aligned_params, starve, "5s", 0, 3600e9,
                       "lengths that had no batch for so long go first; 0 is never",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct aligned_params, starve_rounds, "4", 0, 1000, "",
                    "and for so many times what it takes to serve all of the pool",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_DURATION(struct aligned_params, max_wait, "1s", 0, 3600e9,
                       "a pool of fewer than Rmin is a batch when one has waited so "
                       "long; 0 is only when no request runs",
                       .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(
        struct aligned_params, slack, "1", 0, 1000, "",
        "when no request of the pool is as long as the batch, those join that "
        "are off by no more than this part",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(
        struct aligned_params, rest, "evict", "evict|stay",
        "the remainder of a batch when the next one is due: returns to the pool, for "
        "requests of its length, or is decoded with the next batch",
        .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct aligned_params, headroom_iters, "16", 0, 4096, "steps",
                  "a request that joins leaves room for so many steps of all that run",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_POL_STEP_WATERMARK(struct aligned_params, "0.01"),
    LLS_PARAM_CHOICE(struct aligned_params, batching, "prefix", "prefix|fcfs",
                     "batches of similar lengths, or in order of arrival: an ablation",
                     .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(struct aligned_params, prefetch, "auto", "auto|on|off",
                     "the next batch is made and its memory moved while others run: "
                     "where the cache manager can, or it must be able to, or never"),
    LLS_PARAM_CHOICE(struct aligned_params, preempt, "swap", "recompute|swap",
                     "how requests make room: moved to the host, or dropped and "
                     "prefilled again"),
    LLS_PARAM_INT(struct aligned_params, prefill_batch, "128", 1, 65536, "sequences",
                  "most prompts in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_INT(struct aligned_params, prefill_tokens, "2048", 1, 1e6, "tokens",
                  "most tokens of prompts in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct aligned_params, prefill_share, "0.5", 0.01, 1, "",
                    "part of the time that prompts get while others decode",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(struct aligned_params, pool, "prefill", "prefill|decode",
                     "instances whose host memory is the pool, if instances have roles: "
                     "prefill instances, through whose devices the next batch and "
                     "victims travel, or decode instances"),
    LLS_PARAM_FLOAT(struct aligned_params, crb_frac, "0.2", 0, 0.9, "",
                    "pool = prefill: fraction of a prefill instance's cache that prompts "
                    "leave to the next batch and to victims",
                    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_FLOAT(struct aligned_params, offers_frac, "0.6", 0, 1, "",
                    "prefilled requests wait in the memory of their prefill instance "
                    "while they hold less than this part of a cache",
                    .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
};

/* ---- life -------------------------------------------------------------------------- */

static void destroy(void *self)
{
  struct aligned *a = self;
  tree_free(&a->tree);
  free(a->members);
  free(a->next.slots);
  free(a->spare.slots);
  free(a->running);
  free(a->fresh);
  free(a->offers);
  free(a->found);
  free(a);
}

static int allocate(struct aligned *a, uint32_t n)
{
  uint32_t **const lists[] = {&a->next.slots, &a->spare.slots, &a->running,
                              &a->fresh,      &a->offers,      &a->found};
  bool all = (a->members = calloc(n, sizeof *a->members)) != NULL;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    all &= (*lists[i] = malloc(n * sizeof **lists[i])) != NULL;
  return all ? 0 : -ENOMEM;
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct aligned *a = LLS_POL_SCHEDULER_NEW(struct aligned, host, parameters, params);
  if (a == NULL)
    return -ENOMEM;
  uint32_t longest = (uint32_t)a->params.len_max, width = (uint32_t)a->params.leaf_width;
  *self = a;
  a->window_tokens = host->engine->groups[0]->window;
  lls_pol_fit_init(&a->fit, host->engine);
  if (!tree_fits(longest, width))
    return host->fail(host->context, -EINVAL,
                      "len_max = %u is no power of four times leaf_width = %u: set it to "
                      "%u times 4, 16, 64, ...",
                      longest, width, width);
  if (a->params.prefetch == PREFETCH_ON && !host->engine->async_transfers)
    return host->fail(host->context, -ENOTSUP,
                      "prefetch = on needs a cache manager that moves memory beside "
                      "steps, and [cache] host_memory: set [plugins] cache = tiered, or "
                      "prefetch = auto");
  int rc = tree_init(&a->tree, longest, width, host->engine->max_requests);
  return rc == 0 ? allocate(a, host->engine->max_requests) : rc;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .on_arrival = members_on_arrival,
    .on_step = on_step,
    .on_finish = members_on_finish,
    .on_refused = on_refused,
    .stats = stats,
    .dump = dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("aligned", struct aligned_params,
                         "decodes requests of similar length together (AlignedServe)");
