/* SPDX-License-Identifier: Apache-2.0 */
/* Random steps of a rig: transactions, some of which are rolled back, moves to the host,
 * reloads; at the end all memory is back. See groups.h. */
#include "tools/plugin-check/groups.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 120

/* ---- the state as text ------------------------------------------------------------ */

static void put_text(void *context, const char *line)
{
  fprintf(context, "%s\n", line);
}

static void put_number(void *context, const char *name, double value)
{
  fprintf(context, "%s %.17g\n", name, value);
}

/* Returns what audit says, malloc'ed. */
static char *audit_of(struct groups_rig *r)
{
  char *text = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&text, &bytes);
  struct lls_sink sink = {.context = file, .number = put_number, .text = put_text};
  if (file == NULL)
    abort();
  r->failure[0] = '\0';
  int rc = r->module->cache.audit(r->self, &sink);
  fclose(file);
  if (rc < 0)
    found(r->findings, "%s: audit finds fault with itself: %s", r->set->name,
          r->failure[0] != '\0' ? r->failure : strerror(-rc));
  return text;
}

static void roll_back(struct groups_rig *r, uint32_t mark, char *before)
{
  int rc = r->module->cache.rollback(r->self, mark);
  char *after = audit_of(r);
  if (rc < 0 || strcmp(before, after) != 0)
    found(r->findings, "%s: rollback(%u) leaves another state than mark saw",
          r->set->name, mark);
  free(after);
  free(before);
}

/* ---- a transaction ---------------------------------------------------------------- */

static struct lls_cache_info info_of(struct groups_rig *r, const struct groups_request *q)
{
  struct lls_cache_info info = {.size = sizeof info};
  int rc = r->module->cache.info(r->self, &q->view, &info);
  if (rc < 0 || info.missing_tokens > info.cached_tokens)
    found(r->findings,
          "%s: info of request %" PRIu64 " returns %d, %u of %u tokens missing",
          r->set->name, q->view.id, rc, info.missing_tokens, info.cached_tokens);
  return info;
}

static void update_view(struct groups_rig *r, struct groups_request *q)
{
  const struct lls_cache_info info = info_of(r, q);
  q->view.cached_tokens = info.cached_tokens;
  q->view.missing_tokens = info.missing_tokens;
  q->view.shared_tokens = info.shared_tokens;
  q->view.residency = info.residency;
  q->view.form = info.form;
  q->view.state = info.residency == LLS_RESIDENT_NONE ? LLS_WAITING
                  : info.missing_tokens > 0           ? LLS_PREEMPTED
                  : q->view.generated_tokens > 0      ? LLS_DECODING
                                                      : LLS_PREFILLING;
}

/* Takes the prefix of a waiting request. Returns how many tokens are cached now. */
static uint32_t take_prefix(struct groups_rig *r, const struct groups_request *q)
{
  const struct lls_cache_vtable *c = &r->module->cache;
  struct lls_prefix prefix = {.size = sizeof prefix};
  uint32_t cached = info_of(r, q).cached_tokens;
  if (cached > 0 || c->prefix == NULL || c->prefix(r->self, &q->view, true, &prefix) < 0)
    return cached;
  if (prefix.tokens >= lls_request_length(&q->view))
    found(r->findings, "%s: a prefix of %u tokens of the %u of request %" PRIu64,
          r->set->name, prefix.tokens, lls_request_length(&q->view), q->view.id);
  r->hits += prefix.tokens > 0;
  return prefix.tokens;
}

static bool is_alone(struct groups_rig *r, const struct groups_request *q)
{
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++) {
    const struct groups_request *other = &r->requests[i];
    if (other != q && other->alive &&
        (other->named || info_of(r, other).device_units > 0))
      return false;
  }
  return true;
}

/* Returns how many guesses a step verifies that computes all tokens of a request: none
 * with groups of states, which forget no token. */
static uint32_t guesses_behind(struct groups_rig *r, const struct groups_request *q)
{
  uint32_t length = lls_request_length(&q->view), most = GROUPS_STEP - q->reserved;
  for (uint32_t i = 0; i < r->set->n; i++)
    if (r->groups[i]->kind == LLS_GROUP_STATE)
      return 0;
  most = most < GROUPS_GUESSES ? most : GROUPS_GUESSES;
  most = most < GROUPS_CONTEXT - 2 - length ? most : GROUPS_CONTEXT - 2 - length;
  return length + 2 < GROUPS_CONTEXT && dice(&r->dice, 0, 1) > 0 ? dice(&r->dice, 0, most)
                                                                 : 0;
}

static void try_to_run(struct groups_rig *r, struct groups_request *q)
{
  const struct lls_cache_vtable *c = &r->module->cache;
  uint32_t mark = c->mark(r->self);
  char *before = audit_of(r);
  uint32_t cached = take_prefix(r, q), left = lls_request_length(&q->view) - cached;
  if (left == 0 || left > lls_request_length(&q->view)) {
    roll_back(r, mark, before);
    return;
  }
  q->reserved = dice(&r->dice, 1, left < GROUPS_STEP ? left : GROUPS_STEP);
  uint32_t flags = q->view.request_class == LLS_CLASS_REALTIME ? LLS_MAY_DISPLACE : 0;
  q->guesses = q->reserved == left ? guesses_behind(r, q) : 0;
  int rc = c->reserve(r->self, &q->view, q->reserved + q->guesses, LLS_FORM_NONE, flags);
  q->in_step = rc == LLS_RESERVE_OK && dice(&r->dice, 0, 5) > 0;
  if (rc < 0 || rc >= LLS_RESERVE_NEVER || (rc == LLS_RESERVE_LATER && is_alone(r, q)))
    found(r->findings, "%s: reserve of %u tokens after %u returns %d%s", r->set->name,
          q->reserved, cached, rc,
          rc == LLS_RESERVE_LATER
              ? ": LATER, with no other request: there is nothing to wait for"
          : rc == LLS_RESERVE_NEVER ? ": NEVER, in a pool for three requests"
                                    : "");
  if (q->in_step)
    free(before);
  else
    roll_back(r, mark, before);
}

static void preempt(struct groups_rig *r, const struct groups_request *q)
{
  uint32_t mode = dice(&r->dice, 0, 2) > 0 ? LLS_PREEMPT_SWAP : LLS_PREEMPT_RECOMPUTE;
  const struct lls_cache_vtable *c = &r->module->cache;
  if (!(c->preempt_modes(r->self) >> mode & 1))
    return;
  uint32_t at = c->mark(r->self);
  char *before = audit_of(r);
  if (c->preempt(r->self, &q->view, mode) < 0) {
    roll_back(r, at, before);
    return;
  }
  free(before);
  r->swaps += mode == LLS_PREEMPT_SWAP;
}

/* Starts moving a request to the other tier. Returns false if the manager refuses. */
static bool move(struct groups_rig *r, struct groups_request *q)
{
  const struct lls_cache_vtable *c = &r->module->cache;
  if (c->offload == NULL)
    return false;
  uint32_t at = c->mark(r->self);
  char *before = audit_of(r);
  bool is_here = q->view.residency == LLS_RESIDENT_DEVICE;
  q->moves = (is_here ? c->offload : c->upload)(r->self, &q->view, &q->transfer) == 0;
  if (!q->moves) {
    roll_back(r, at, before);
    return false;
  }
  free(before);
  if (info_of(r, q).residency != LLS_RESIDENT_MOVING)
    found(r->findings, "%s: request %" PRIu64 " moves, and info does not say so",
          r->set->name, q->view.id);
  return true;
}

/* A step has ended, and with it all ASYNC copies. */
static void end_moves(struct groups_rig *r)
{
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++) {
    struct groups_request *q = &r->requests[i];
    if (!q->alive || !q->moves)
      continue;
    r->module->cache.on_transfer(r->self, q->transfer);
    q->moves = info_of(r, q).residency == LLS_RESIDENT_MOVING;
    r->moved += !q->moves;
  }
}

/* Each request at most once, as in a plan. */
static void plan(struct groups_rig *r)
{
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++) {
    struct groups_request *q = &r->requests[i];
    q->moves = q->alive && info_of(r, q).residency == LLS_RESIDENT_MOVING;
    q->in_step = false;
    q->named = q->moves;
  }
  for (uint32_t n = 0; n < GROUPS_REQUESTS; n++) {
    struct groups_request *q = &r->requests[dice(&r->dice, 0, GROUPS_REQUESTS - 1)];
    if (!q->alive || q->named)
      continue;
    if (q->view.cached_tokens > 0 && dice(&r->dice, 0, 7) == 0 && move(r, q))
      q->named = true;
    else if (q->view.cached_tokens > 0 && dice(&r->dice, 0, 5) == 0)
      preempt(r, q);
    else
      try_to_run(r, q);
    q->named = true;
  }
}

/* ---- a step ----------------------------------------------------------------------- */

/* A step may compute fewer tokens than were reserved, and accept none of its guesses. */
static void compute(struct groups_rig *r)
{
  struct lls_block_table tables[GROUPS_REQUESTS];
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++) {
    struct groups_request *q = &r->requests[i];
    if (!q->in_step)
      continue;
    q->context = info_of(r, q).cached_tokens;
    bool whole = q->guesses > 0 || dice(&r->dice, 0, 2) > 0;
    q->run = whole ? q->reserved : dice(&r->dice, 1, q->reserved);
    q->accepted = dice(&r->dice, 0, q->guesses);
    q->view.cached_tokens = q->context;
    groups_read(r, q, &tables[i]);
  }
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++)
    if (r->requests[i].in_step)
      groups_write(r, &r->requests[i], &tables[i]);
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++)
    if (r->requests[i].in_step)
      groups_verify(r, &r->requests[i], &tables[i]);
}

static void step(struct groups_rig *r)
{
  const struct lls_cache_vtable *c = &r->module->cache;
  r->now_ns += LLS_NS_PER_S / 100;
  c->begin(r->self);
  char *before = audit_of(r);
  plan(r);
  if (dice(&r->dice, 0, 9) == 0) { /* the plan was refused */
    roll_back(r, 0, before);
    plan(r);
  } else {
    free(before);
  }
  c->commit(r->self);
  groups_copy(r, false);
  compute(r);
  groups_copy(r, true);
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++) {
    struct groups_request *q = &r->requests[i];
    if (q->in_step) {
      q->view.cached_tokens = q->context + q->run + q->accepted;
      while (q->view.cached_tokens >= lls_request_length(&q->view))
        groups_append(q);
      c->computed(r->self, &q->view, q->view.cached_tokens);
    }
  }
  end_moves(r);
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++)
    if (r->requests[i].alive)
      update_view(r, &r->requests[i]);
}

static void release(struct groups_rig *r, struct groups_request *q, bool keep)
{
  struct lls_release how = {.size = sizeof how, .flags = keep ? LLS_KEEP_PREFIX : 0};
  q->view.state = LLS_FINISHED;
  r->module->cache.release(r->self, &q->view, &how);
  q->alive = false;
}

/* Requests come and go; none gets longer than a context. */
static void change(struct groups_rig *r)
{
  uint32_t chosen = dice(&r->dice, 0, GROUPS_REQUESTS - 1);
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++) {
    struct groups_request *q = &r->requests[i];
    bool ends = q->alive && (lls_request_length(&q->view) >= GROUPS_CONTEXT - 1 ||
                             (i == chosen && dice(&r->dice, 0, 4) == 0));
    if (ends)
      release(r, q, dice(&r->dice, 0, 3) > 0);
    else if (!q->alive && i == chosen)
      groups_submit(r, q);
  }
}

/* Another generation takes over; a request that it does not know arrives again. */
static void reload(struct groups_rig *r)
{
  const struct lls_cache_vtable *c = &r->module->cache;
  struct lls_blob blob = {0};
  void *old = r->self;
  if (c->export_state == NULL || c->export_state(old, &blob) < 0)
    return;
  int rc = groups_create(r), taken = rc == 0 ? c->import_state(r->self, &blob) : rc;
  free(blob.data);
  c->destroy(old);
  if (rc < 0) {
    found(r->findings, "%s: a second generation is not created: %s", r->set->name,
          r->failure);
    return;
  }
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++) {
    struct groups_request *q = &r->requests[i];
    struct lls_cache_info info = {.size = sizeof info};
    if (!q->alive)
      continue;
    if (taken < 0 || c->info(r->self, &q->view, &info) < 0) {
      q->view.cached_tokens = 0;
      c->admit(r->self, &q->view);
    }
    update_view(r, q);
  }
  free(audit_of(r));
}

/* ---- a set ------------------------------------------------------------------------ */

static uint32_t free_units(const struct groups_rig *r, uint32_t tier)
{
  struct lls_capacity c = {.size = sizeof c};
  return r->module->cache.capacity(r->self, tier, &c) == 0 ? c.free_units : 0;
}

/* As much is free where no request is left as there was before the first one. */
static void judge_memory(struct groups_rig *r, const uint32_t before[2])
{
  for (uint32_t tier = 0; tier <= LLS_TIER_HOST; tier++)
    if (free_units(r, tier) != before[tier])
      found(r->findings,
            "%s: %u units of tier %u are free where no request is left, of %u at first",
            r->set->name, free_units(r, tier), tier, before[tier]);
}

static void play(struct groups_rig *r)
{
  const uint32_t before[] = {free_units(r, LLS_TIER_DEVICE),
                             free_units(r, LLS_TIER_HOST)};
  for (uint32_t i = 0; i < STEPS && r->findings->n == 0; i++) {
    change(r);
    step(r);
    if (i % 30 == 29 && r->findings->n == 0)
      reload(r);
  }
  for (uint32_t i = 0; i < GROUPS_REQUESTS && r->findings->n == 0; i++)
    if (r->requests[i].alive)
      release(r, &r->requests[i], false);
  if (r->findings->n == 0)
    judge_memory(r, before);
}

/* Does the manager say that it keeps so many groups, of these kinds? */
static bool keeps(const struct lls_plugin_module *m, const struct groups_set *set)
{
  if (set->n > lls_cache_groups(&m->cache))
    return false;
  for (uint32_t i = 0; i < set->n; i++)
    if (!lls_cache_keeps(&m->cache, set->groups[i].kind))
      return false;
  return true;
}

void groups_try(const struct lls_plugin_module *module, const void *params,
                const struct groups_set *set, uint64_t seed, struct findings *f,
                struct groups_seen *seen)
{
  static struct groups_rig r;
  bool kept = keeps(module, set);
  snprintf(f->where, WHERE_MAX, "a callback, with %s", set->name);
  int rc = groups_open(&r, module, params, set, seed, f);
  if (rc < 0 && (r.failure[0] == '\0' || (kept && rc != -ENOTSUP)))
    found(f, "%s: create fails, %s: %s", set->name, strerror(-rc),
          r.failure[0] != '\0' ? r.failure : "without a sentence");
  if (rc == 0 && kept)
    play(&r);
  seen->sets += kept && rc == 0;
  seen->refused += rc < 0;
  seen->hits += r.hits;
  seen->swaps += r.swaps;
  seen->moved += r.moved;
  seen->others += r.others > 0;
  groups_close(&r);
  f->where[0] = '\0';
}
