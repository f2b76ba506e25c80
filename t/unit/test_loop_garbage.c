/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shipped policies whose answers are overwritten, now and then, with zeros, with one byte
 * or with random bytes. Whatever is written, the whole answer is refused, counted and
 * logged with the plugin's name; every client ends once and gets no wrong token; and
 * after a reload sane policies serve normally.
 */
#include "t/clients.h"
#include "t/dice.h"
#include "core/instance/policy_figures.h"
#include "core/record/snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLIENTS 6
#define SEEDS   TAP_LOTS(12)
#define GARBAGE ((size_t)64 << 10)

/* The part of the answer that a wrapped callback overwrites. */
enum target {
  PLAN,
  ITEMS,
  PLAN_AND_ITEMS,
  VIEW,
  LISTS,
  SERVICE,
  REPORT,
  N_PLAN_TARGETS,
  TABLE = N_PLAN_TARGETS,
  ENTRIES,
  COPY_COUNT,
  COPY_LIST,
  INFO,
  CAPACITY,
  NEED,
  RESERVE,
  N_CACHE_TARGETS,
  PREDICTION = N_CACHE_TARGETS,
};

/* The wrapped policies; static, since cmocka runs one test at a time on one thread. */
static struct {
  struct lls_plugin_module scheduler, cache, predictor; /* with the callbacks below */
  struct lls_plugin_module drafter; /* a copy, so that a reload exchanges it as well */
  struct lls_loop_policies sane;
  const struct lls_host *host; /* the predictor's host */
  struct dice dice;
  enum target target;
  uint32_t chance; /* percentage of overwritten calls */
  uint64_t written;
} g;

/* Overwrites with zeros, one byte, or random bytes. */
static void scribble(void *to, size_t bytes)
{
  unsigned char *at = to;
  uint32_t kind = dice(&g.dice, 0, 3);
  unsigned char byte = kind == 0 ? 0 : kind == 1 ? 0x5a : 0xff;
  for (size_t i = 0; i < bytes; i++)
    at[i] = kind < 3 ? byte : (unsigned char)dice_next(&g.dice);
  g.written++;
}

static bool now_and_then(enum target target)
{
  return g.target == target && dice(&g.dice, 1, 100) <= g.chance;
}

/* ---- scheduler --------------------------------------------------------------------- */

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct lls_scheduler_vtable *sane = &g.sane.scheduler.module->scheduler;
  int rc = sane->plan(self, view, out);
  void *items = out->items, *lists = (void *)view->running;
  void *service = (void *)view->cache;
  if (now_and_then(VIEW))
    scribble((void *)view, GARBAGE);
  if (now_and_then(LISTS))
    scribble(lists, GARBAGE);
  if (now_and_then(SERVICE))
    scribble(service, GARBAGE);
  if (now_and_then(ITEMS)) {
    scribble(items, GARBAGE);
    out->n_items = dice(&g.dice, 1, out->max_items);
  }
  if (now_and_then(PLAN))
    scribble(out, dice(&g.dice, 1, 4) == 1 ? sizeof *out : GARBAGE);
  if (now_and_then(PLAN_AND_ITEMS)) {
    scribble(items, GARBAGE);
    scribble(out, GARBAGE);
    g.written--; /* it counts as one plan */
  }
  return rc;
}

static void on_step(void *self, const struct lls_step_report *report)
{
  const struct lls_scheduler_vtable *sane = &g.sane.scheduler.module->scheduler;
  if (sane->on_step != NULL)
    sane->on_step(self, report);
  if (now_and_then(REPORT))
    scribble((void *)report->results, GARBAGE);
}

/* ---- cache manager ----------------------------------------------------------------- */

#define SANE (&g.sane.cache.module->cache)

static int table(void *self, const struct lls_request *r, struct lls_block_table *out)
{
  static struct lls_block_entry entries[GARBAGE / sizeof(struct lls_block_entry)];
  static struct lls_group_list list;
  int rc = SANE->table(self, r, out);
  if (now_and_then(TABLE)) {
    scribble(&list, sizeof list);
    bool null = dice(&g.dice, 0, 1) == 1; /* a wild pointer cannot be detected */
    list.entries = list.restored = null ? NULL : entries;
    if (!null) /* nor can a length that might be right */
      list.n_entries |= 1u << 31;
    if (dice(&g.dice, 0, 3) == 0)
      scribble(&out->n_groups, sizeof out->n_groups);
    out->lists = dice(&g.dice, 0, 7) == 0 ? NULL : &list;
  }
  if (now_and_then(ENTRIES)) {
    scribble(entries, sizeof entries);
    list.entries = entries;
    out->lists = &list;
  }
  return rc;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  static struct lls_copy list[64];
  size_t n = SANE->copies(self, out);
  if (now_and_then(COPY_COUNT)) {
    *out = dice(&g.dice, 0, 1) == 1 ? NULL : list;
    g.written++;
    return (size_t)dice_next(&g.dice) | (size_t)1 << 40;
  }
  if (now_and_then(COPY_LIST)) {
    scribble(list, sizeof list);
    list[dice(&g.dice, 0, 63)].source =
        UINT32_MAX; /* zeros would copy unit 0 to itself */
    *out = list;
    return 64;
  }
  return n;
}

static int info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  int rc = SANE->info(self, r, out);
  if (now_and_then(INFO)) {
    scribble(out, sizeof *out);
    out->missing_tokens |= 1;
    out->cached_tokens = 0;
  }
  return rc;
}

static int capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  int rc = SANE->capacity(self, tier, out);
  if (now_and_then(CAPACITY))
    scribble(out, sizeof *out);
  return rc;
}

static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  int rc = SANE->need(self, r, tokens, form, out);
  if (now_and_then(NEED))
    scribble(out, sizeof *out);
  return rc;
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  int rc = SANE->reserve(self, r, tokens, form, flags);
  if (!now_and_then(RESERVE))
    return rc;
  g.written++;
  return dice(&g.dice, 0, 1) == 1 ? INT32_MAX : (int)dice(&g.dice, 3, 1000);
}

/* ---- both, and predictor ----------------------------------------------------------- */

/* Blobs with fewer bytes than declared, or none. */
static int export_state(void *self, struct lls_blob *out)
{
  (void)self;
  bool null = dice(&g.dice, 0, 1) == 1;
  out->version = dice(&g.dice, 0, 1) == 1 ? LLS_STATE_HOLDINGS : 1;
  out->data = null ? NULL : calloc(1, 16);
  out->bytes = null ? 1 : GARBAGE;
  return 0;
}

/* A name without an end within reason. */
static const char *endless(void)
{
  static char name[4096];
  memset(name, 'a', sizeof name - 1);
  return name;
}

static void stats(void *self, const struct lls_sink *sink)
{
  (void)self;
  sink->number(sink->context, NULL, 1);
  sink->number(sink->context, endless(), 1);
  sink->number(sink->context, "", NAN);
  sink->number(sink->context, "\xff\x01", INFINITY);
  sink->text(sink->context, NULL);
  for (int i = 0; i < 100; i++) {
    char name[24];
    snprintf(name, sizeof name, "figure_%d", i);
    sink->number(sink->context, name, i % 2 ? NAN : -INFINITY);
  }
}

static void dump(void *self, const struct lls_sink *sink)
{
  static char line[1 << 20];
  memset(line, '\xff', sizeof line - 1);
  stats(self, sink);
  sink->text(sink->context, line);
}

static struct lls_prediction wild(void)
{
  struct lls_prediction p;
  scribble(&p, sizeof p);
  const float confidence[] = {NAN, INFINITY, -1, 2, p.confidence};
  p.confidence = confidence[dice(&g.dice, 0, 4)];
  p.source |= 1u << 30; /* otherwise it might be valid */
  return p;
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  (void)self, (void)prompt;
  if (g.target != PREDICTION)
    return -ENOENT;
  struct lls_prediction late = wild();
  g.host->predicted(g.host->context, ticket, &late);
  g.host->predicted(g.host->context, ticket, NULL);
  g.host->count(g.host->context, NULL, 1);
  g.host->count(g.host->context, endless(), 1);
  g.host->count(g.host->context, "finite", NAN);
  assert_null(g.host->extension(g.host->context, NULL));
  *out = wild();
  return dice(&g.dice, 0, 1) == 1 ? 0 : -EINPROGRESS;
}

static int create_predictor(const struct lls_host *host, const void *params, void **self)
{
  g.host = host;
  return g.sane.predictor.module->predictor.create(host, params, self);
}

/* ---- the scene --------------------------------------------------------------------- */

static void wrap(void *context, struct lls_loop_policies *policies)
{
  (void)context;
  g.sane = *policies;
  g.scheduler = *policies->scheduler.module;
  g.cache = *policies->cache.module;
  g.predictor = *policies->predictor.module;
  g.drafter = *policies->drafter.module;
  g.scheduler.scheduler.plan = plan;
  g.scheduler.scheduler.on_step = on_step;
  g.scheduler.scheduler.dump = dump;
  g.scheduler.scheduler.stats = stats;
  g.scheduler.scheduler.export_state = export_state;
  g.cache.cache.table = table;
  g.cache.cache.copies = copies;
  g.cache.cache.info = info;
  g.cache.cache.capacity = capacity;
  g.cache.cache.need = need;
  g.cache.cache.reserve = reserve;
  g.cache.cache.stats = stats;
  g.cache.cache.export_state = export_state;
  g.predictor.predictor.predict = predict;
  g.predictor.predictor.create = create_predictor;
  g.predictor.predictor.stats = stats;
  policies->scheduler.module = &g.scheduler;
  policies->cache.module = &g.cache;
  policies->predictor.module = &g.predictor;
  policies->drafter.module = &g.drafter;
}

struct outcome {
  struct lls_loop_status status; /* before the reload */
  uint32_t by_length;
  char log[GARBAGE];
};

static void serve(struct harness *h, const struct reference *ref, uint32_t *by_length)
{
  struct client clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++)
    submit(h, &clients[i], &ref->prompts[i % 3]);
  run_to_end(h);
  for (int i = 0; i < CLIENTS; i++) {
    const struct client *c = &clients[i];
    const int32_t *greedy = c->prompt->tokens + c->prompt->n_prompt;
    assert_int_equal(c->finished, 1);
    assert_memory_equal(c->tokens, greedy, c->n_tokens * sizeof *greedy);
    *by_length += c->reason == LLS_FINISH_LENGTH;
  }
}

static void look(struct harness *h)
{
  struct lls_loop_policy_stats all;
  assert_int_equal(lls_loop_ask_snapshot(h->loop), 0);
  assert_true(lls_loop_step(h->loop) >= 0);
  assert_true(lls_loop_snapshot_ready(h->loop));
  assert_true(lls_loop_snapshot(h->loop, 0)->length <= LLS_SNAPSHOT_LINES_BYTES);
  lls_loop_policy_stats(h->loop, 0, &all);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    assert_true(all.by_kind[i].n <= LLS_MAX_POLICY_STATS);
}

static void reload_sane(struct harness *h)
{
  struct lls_loop_change change = {.policies = g.sane, .limits.strikes = 10};
  struct lls_error err = {0};
  int rc = lls_loop_reload_at_once(h->loop, &change, &err);
  while (rc == 0 && !lls_loop_reloaded(h->loop, &rc, &err))
    lls_loop_events(h->loop, on_event, NULL);
  if (rc < 0)
    fail_msg("%s", err.text);
}

/* Runs clients with garbage, takes snapshots, then runs clients with sane policies. */
static void run(const char *scheduler, enum target target, int seed, struct outcome *out)
{
  struct harness h;
  struct reference *ref = reference_read(MODEL);
  struct harness_options o = client_options(scheduler);
  uint32_t after = 0;
  o.replace = wrap;
  o.max_requests = 1024;
  o.host_units = 64;
  o.log_level = LLS_LOG_WARNING;
  o.create_device = seed % 2 ? create_asynchronous : NULL; /* it keeps tables */
  g.dice.state = (uint64_t)seed;
  g.target = target;
  g.chance = 20;
  g.written = 0;
  *out = (struct outcome){0};
  open_or_fail(&h, &o);
  h.log.fd = memfd_create("log", 0);
  serve(&h, ref, &out->by_length);
  look(&h);
  lls_loop_status(h.loop, &out->status);
  assert_true(pread(h.log.fd, out->log, sizeof out->log - 1, 0) >= 0);
  reload_sane(&h);
  serve(&h, ref, &after);
  assert_int_equal(after, CLIENTS);
  assert_memory_is_back(&h);
  struct lls_loop_status status;
  lls_loop_status(h.loop, &status);
  assert_false(status.fallen_back);
  assert_int_equal(status.plans_refused, out->status.plans_refused);
  close(h.log.fd);
  h.log.fd = 2;
  harness_close(&h);
  reference_free(ref);
}

/* ---- tests ------------------------------------------------------------------------- */

static void test_a_plan_of_garbage_is_refused(void **state)
{
  static struct outcome out;
  (void)state;
  const enum target targets[] = {PLAN, ITEMS, PLAN_AND_ITEMS};
  for (int seed = 1; seed <= SEEDS; seed++) {
    run(seed % 2 ? "fcfs" : "sarathi", targets[seed % 3], seed, &out);
    assert_int_equal(out.by_length, CLIENTS);
    assert_int_equal(out.status.plans_refused, g.written < 10 ? g.written : 10);
    assert_int_equal(out.status.policies.scheduler.breaches, out.status.plans_refused);
    assert_non_null(strstr(out.log, seed % 2 ? "plugin-misbehaving scheduler fcfs: plan"
                                             : "plugin-misbehaving scheduler sarathi: "
                                               "plan"));
  }
}

static void test_garbage_over_the_view_spoils_nothing(void **state)
{
  static struct outcome out;
  (void)state;
  const enum target targets[] = {VIEW, LISTS, SERVICE, REPORT};
  for (int seed = 1; seed <= SEEDS; seed++) {
    run("fcfs", targets[seed % 4], seed, &out);
    assert_int_equal(out.by_length, CLIENTS);
    assert_true(g.written > 0);
  }
}

static void test_garbage_of_a_cache_manager_costs_requests_at_most(void **state)
{
  static struct outcome out;
  (void)state;
  for (enum target target = TABLE; target < N_CACHE_TARGETS; target++)
    for (int seed = 1; seed <= (SEEDS + 5) / 6; seed++) {
      run("fcfs", target, seed, &out);
      assert_true(target == CAPACITY || target == NEED || target == INFO ||
                  g.written > 0);
      bool checked = target != NEED && target != CAPACITY && g.written > 0;
      assert_true(!checked || out.status.policies.cache.breaches > 0);
      assert_true(!checked ||
                  strstr(out.log, "plugin-misbehaving cache paged: ") != NULL);
    }
}

static void test_garbage_of_a_predictor_is_no_prediction(void **state)
{
  static struct outcome out;
  (void)state;
  for (int seed = 1; seed <= SEEDS; seed++) {
    run("sjf", PREDICTION, seed, &out);
    assert_int_equal(out.by_length, CLIENTS);
    assert_int_equal(out.status.policies.predictor.breaches, 2 * CLIENTS);
    assert_non_null(strstr(out.log, "plugin-misbehaving predictor none: prediction for"));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_plan_of_garbage_is_refused),
      cmocka_unit_test(test_garbage_over_the_view_spoils_nothing),
      cmocka_unit_test(test_garbage_of_a_cache_manager_costs_requests_at_most),
      cmocka_unit_test(test_garbage_of_a_predictor_is_no_prediction),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
