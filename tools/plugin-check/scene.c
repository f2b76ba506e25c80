/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up an instance with the plugin under watch; see scene.h. */
#include "tools/plugin-check/scene.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/plugin-check/mover.h"

/* ---- the device --------------------------------------------------------------- */

/* Costs of a step of a few milliseconds, as an A100 takes for a model of 13 billion
 * weights. The link to the host is slower by the ratio of the caches: 512 bytes a token
 * here instead of 819,200. */
static struct lls_cost_rates rates(void)
{
  const struct lls_profile profile = {
      .device = {.name = "plugin-check",
                 .memory = INT64_C(40000000000),
                 .bandwidth = 1555,
                 .matrix = 312},
      .host_link = {.bandwidth = 25 * 512 / 819200.0, .latency = 10000},
      .efficiency = {.memory = 0.9,
                     .matrix = 0.6,
                     .prefill_attention = 0.3,
                     .weights = 0.8,
                     .cache = 0.6,
                     .one_sequence = 1,
                     .restore = 1},
      .overhead = {.step = 200000, .layer = 5000},
  };
  const struct lls_cost_shape shape = {
      .ranks = 1,
      .stages = 1,
      .layers = 40,
      .hidden = 5120,
      .all_weights = 12.6e9,
      .picked_weights = 0.25e9,
      .kv_weights = 2.1e9,
      .weight_bytes = 2,
      .pair_flops = 4.0 * 40 * 5120,
      .token_bytes = 819200,
      .row_bytes = 10240,
  };
  struct lls_cost_rates out;
  lls_cost_rates_init(&out, &profile, &shape);
  return out;
}

/* ---- opening ------------------------------------------------------------------ */

static void watch_generation(struct scene *s, struct generation *g)
{
  const struct lls_plugin_module *shared =
      s->share != NULL ? s->share->generations[0].loaded.module : NULL;
  watch_module(&g->watched, &s->watch, shared != NULL ? shared : g->loaded.module);
  g->handed = (struct handed){&g->watched, g->loaded.params};
}

#define DRAFTS 6 /* guesses of a request, where a drafter is checked */

/* Replaces the plugin that the harness has loaded by its watched version. */
static void replace(void *context, struct lls_loop_policies *policies)
{
  struct scene *s = context;
  struct lls_loop_policy *policy = LLS_OF_KIND(policies, s->subject->kind);
  struct generation *g = &s->generations[s->n_generations++];
  g->loaded.module = (struct lls_plugin_module *)(uintptr_t)policy->module;
  g->loaded.params = (void *)(uintptr_t)policy->params;
  watch_generation(s, g);
  *policy = (struct lls_loop_policy){&g->watched.module, &g->handed};
  if (s->with_mover)
    policies->scheduler = (struct lls_loop_policy){&mover_module, NULL};
}

const char *const *companion_names(const struct subject *s, uint32_t kind)
{
  static const char *const usual[][3] = {
      [LLS_KIND_SCHEDULER] = {"fcfs", "sarathi"},
      [LLS_KIND_CACHE] = {"paged", "tiered"},
      [LLS_KIND_PREDICTOR] = {"fixed", "none"},
      [LLS_KIND_DRAFTER] = {"none"},
  };
  return s->companions[kind][0] != NULL ? s->companions[kind] : usual[kind];
}

static struct harness_policy choose(const struct scene *s, const struct scene_options *o,
                                    uint32_t kind)
{
  static const char *const swap[] = {"preempt", "swap", NULL};
  /* a slow link: a transfer takes several steps, so that schedulers meet moving
   * requests */
  static const char *const slowly[] = {"share", "0.01", NULL};
  const struct subject *subject = s->subject;
  if (kind == subject->kind)
    return (struct harness_policy){subject->path, subject->parameters};
  const char *const *names = companion_names(subject, kind);
  bool usual = names != subject->companions[kind];
  bool second =
      usual && (kind == LLS_KIND_SCHEDULER ? o->seed % 2 == 1
                                           : kind == LLS_KIND_CACHE && o->transfers);
  const char *const *parameters = NULL;
  if (usual && kind == LLS_KIND_SCHEDULER && o->host_units > 0)
    parameters = swap;
  if (kind == LLS_KIND_CACHE && second)
    parameters = slowly;
  return (struct harness_policy){names[second && names[1] != NULL], parameters};
}

static void add_instances(const struct subject *subject, const struct scene_options *o,
                          struct harness_options *h)
{
  bool roles = o->roles || subject->needs_roles;
  h->instances = o->instances > 0 ? o->instances : roles ? 2 : 1;
  if (roles) {
    h->roles[0] = LLS_ROLE_PREFILL;
    h->roles[h->instances - 1] = LLS_ROLE_DECODE;
  }
}

int scene_open(struct scene *s, const struct subject *subject,
               const struct scene_options *o, struct findings *f)
{
  *s = (struct scene){.subject = subject, .share = o->share};
  s->with_mover = (o->transfers || o->instances > 1) &&
                  subject->kind != LLS_KIND_SCHEDULER &&
                  subject->companions[LLS_KIND_SCHEDULER][0] == NULL;
  s->watch = (struct watch){
      .findings = f, .journal = o->journal, .light = o->light, .audit_every = 5};
  s->generations = calloc(MAX_GENERATIONS, sizeof *s->generations);
  s->sim = (struct lls_sim_options){
      .rates = rates(), .memory = UINT64_C(1) << 50, .eos = 2, .name = "plugin-check"};
  struct harness_options options = {
      .model = subject->model,
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = o->max_tokens,
      .max_sequences = o->max_sequences,
      .max_requests = o->max_requests,
      .block_tokens = o->block_tokens,
      .max_context = o->max_context,
      .device_units = o->device_units,
      .host_units = o->host_units,
      .window = o->window,
      .scheduler = choose(s, o, LLS_KIND_SCHEDULER),
      .cache = choose(s, o, LLS_KIND_CACHE),
      .predictor = choose(s, o, LLS_KIND_PREDICTOR),
      .drafter = choose(s, o, LLS_KIND_DRAFTER),
      .max_drafts = subject->kind == LLS_KIND_DRAFTER ? DRAFTS : 0,
      .seed = o->seed,
      .log_level = LLS_LOG_WARNING,
      .sim = &s->sim,
      .block_events = !o->light,
      .cost = o->transfers ? &s->sim.rates : NULL,
      .replace = replace,
      .replace_context = s,
  };
  add_instances(subject, o, &options);
  struct lls_error err = {0};
  s->log = memfd_create("log", MFD_CLOEXEC);
  int null = dup(2); /* errors are in err; log lines during creation are discarded */
  dup2(s->log, 2);
  int rc = s->generations == NULL ? -ENOMEM : harness_open(&s->h, &options, &err);
  dup2(null, 2);
  close(null);
  if (rc < 0) {
    found(f, "cannot start: %s", lls_error_text(&err, rc));
    scene_close(s);
    return rc;
  }
  s->h.log.fd = s->log;
  return 0;
}

void scene_close(struct scene *s)
{
  harness_close(&s->h);
  for (uint32_t i = 1; i < s->n_generations; i++)
    policy_unload(&s->generations[i].loaded);
  free(s->generations);
  watch_free(&s->watch);
  close(s->log);
}

char *scene_log_line(const struct scene *s, const char *words)
{
  char *line = NULL;
  size_t size = 0;
  FILE *file = fdopen(dup(s->log), "r");
  if (file == NULL)
    return NULL;
  rewind(file);
  while (getline(&line, &size, file) >= 0)
    if (strstr(line, words) != NULL) {
      fclose(file);
      line[strcspn(line, "\n")] = '\0';
      return line;
    }
  free(line);
  fclose(file);
  return NULL;
}

uint32_t scene_needs(const struct subject *subject, struct findings *f)
{
  static const struct scene_options least = {
      .block_tokens = 16,
      .device_units = 64,
      .max_tokens = 64,
      .max_sequences = 8,
      .max_context = 256,
      .max_requests = 16,
      .instances = 2,
      .roles = true,
  };
  struct findings quiet = {.fd = -1, .where = f->where};
  struct scene s;
  if (subject->kind == LLS_KIND_SCHEDULER && scene_open(&s, subject, &least, &quiet) == 0)
    scene_close(&s);
  return subject->kind == LLS_KIND_SCHEDULER ? s.watch.needs : 0;
}

/* ---- steps --------------------------------------------------------------------- */

static void ignore_blocks(void *context, uint32_t instance,
                          const struct lls_block_event_list *list)
{
  (void)context;
  (void)instance;
  (void)list;
}

int scene_step(struct scene *s)
{
  lls_loop_block_events(s->h.loop, ignore_blocks, NULL);
  uint32_t turn, n = lls_loop_n_instances(s->h.loop);
  int64_t until_ns = lls_loop_next_ns(s->h.loop, &turn);
  if (until_ns == LLS_NEVER)
    until_ns = lls_sim_now(s->h.device) + LLS_NS_PER_S / 1000;
  for (uint32_t i = 0; i < n; i++)
    lls_sim_advance(s->h.devices[i], until_ns);
  return lls_loop_step_one(s->h.loop, turn);
}

/* ---- reload ------------------------------------------------------------------- */

static void ignore(void *context, const struct lls_event *event)
{
  (void)context;
  (void)event;
}

int scene_reload(struct scene *s, const char *name)
{
  struct findings *f = s->watch.findings;
  struct lls_error err = {0};
  struct lls_loop_change change = {.limits.strikes = 10};
  struct lls_loop_policy *policy = LLS_OF_KIND(&change.policies, s->subject->kind);
  struct generation *g = &s->generations[s->n_generations];
  const struct harness_policy subject = {s->subject->path, s->subject->parameters};
  const struct harness_policy other = {name, NULL};
  int rc = 0;
  if (s->n_generations == MAX_GENERATIONS)
    return 0;
  if (name != NULL && s->subject->needs_roles) { /* a scheduler may not support roles */
    *policy = (struct lls_loop_policy){&mover_module, NULL};
  } else {
    rc =
        policy_load(s->subject->kind, name == NULL ? &subject : &other, &g->loaded, &err);
    s->n_generations++;
    if (rc == 0)
      watch_generation(s, g);
    *policy = (struct lls_loop_policy){&g->watched.module, &g->handed};
  }
  if (rc == 0)
    rc = lls_loop_reload_at_once(s->h.loop, &change, &err);
  if (rc == 0)
    while (!lls_loop_reloaded(s->h.loop, &rc, &err))
      lls_loop_events(s->h.loop, ignore, NULL);
  if (rc < 0)
    found(f, "cannot be put in place of a running one: %s", lls_error_text(&err, rc));
  return rc;
}
