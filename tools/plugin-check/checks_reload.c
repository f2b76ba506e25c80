/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that is changed while it runs: replaced by itself with its state, by another
 * plugin and back, given parameters, or given state that it did not export; see
 * checks.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/checks.h"
#include "tools/plugin-check/load.h"

static struct scene_options roomy(uint64_t seed)
{
  return (struct scene_options){
      .block_tokens = 16,
      .device_units = 200,
      .host_units = 100,
      .max_tokens = 256,
      .max_sequences = 24,
      .max_context = 512,
      .max_requests = 64,
      .seed = seed,
  };
}

/* Returns how often the plugin refused state. */
static uint32_t run(const struct subject *s, struct findings *f, uint64_t seed,
                    void (*each_step)(struct scene *, uint64_t))
{
  struct scene scene;
  struct load l;
  struct scene_options o = roomy(seed);
  struct load_options load = {.n = 40,
                              .max_prompt = 120,
                              .max_length = 60,
                              .trickle = true,
                              .shared = seed % 2 == 0,
                              .each_step = each_step};
  if (scene_open(&scene, s, &o, f) < 0)
    return 0;
  load_run(&l, &scene, &load, seed);
  load_free(&l);
  uint32_t refused = scene.watch.n_states_refused;
  scene_close(&scene);
  return refused;
}

/* ---- replaced ----------------------------------------------------------------- */

static void by_itself(struct scene *scene, uint64_t step)
{
  if (step % 7 == 6)
    scene_reload(scene, NULL);
}

void check_reload(const struct subject *s, struct findings *f)
{
  uint32_t refused = 0;
  for (uint64_t seed = s->seed; seed < s->seed + 3 && f->n == 0; seed++)
    refused += run(s, f, seed, by_itself);
  if (refused > 0)
    noted(f,
          "import_state refused what export_state of the same plugin gave %u times, and "
          "it began empty",
          refused);
}

static void by_another(struct scene *scene, uint64_t step)
{
  const char *other = companion_names(scene->subject, scene->subject->kind)[0];
  if (step % 11 == 5)
    scene_reload(scene, other);
  else if (step % 11 == 10)
    scene_reload(scene, NULL);
}

void check_exchange(const struct subject *s, struct findings *f)
{
  for (uint64_t seed = s->seed; seed < s->seed + 3 && f->n == 0; seed++)
    run(s, f, seed, by_another);
}

/* ---- other parameters --------------------------------------------------------- */

/* Reloads the running module with the same parameters, as a SIGHUP does when a key has
 * changed. */
static void with_parameters(struct scene *scene, uint64_t step)
{
  struct lls_error err = {0};
  struct generation *g = &scene->generations[0];
  struct lls_loop_policy same = {&g->watched.module, &g->handed};
  struct lls_loop_change change = {.limits.strikes = 10};
  if (step % 5 != 4)
    return;
  *LLS_OF_KIND(&change.policies, scene->subject->kind) = same;
  int rc = lls_loop_reload_at_once(scene->h.loop, &change, &err);
  if (rc == 0)
    lls_loop_reloaded(scene->h.loop, &rc, &err);
  if (rc < 0)
    found(scene->watch.findings, "reconfigure with the parameters it has: %s",
          lls_error_text(&err, rc));
}

static bool has_reconfigure(const struct lls_plugin_module *m)
{
  return m->descriptor->kind == LLS_KIND_SCHEDULER ? m->scheduler.reconfigure != NULL
         : m->descriptor->kind == LLS_KIND_CACHE   ? m->cache.reconfigure != NULL
         : m->descriptor->kind == LLS_KIND_DRAFTER ? m->drafter.reconfigure != NULL
                                                   : m->predictor.reconfigure != NULL;
}

void check_reconfigure(const struct subject *s, struct findings *f)
{
  struct lls_plugin_module *m;
  if (lls_plugin_open(s->kind, s->path, &m, NULL) < 0)
    return;
  if (has_reconfigure(m))
    run(s, f, s->seed, with_parameters);
  else
    skipped(f, "no reconfigure: new parameters need a new instance");
  lls_plugin_close(m);
}

/* ---- state that is not its own ------------------------------------------------ */

struct keeper { /* the callbacks that plugins of every kind have */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);
};

static struct keeper keeper_of(const struct lls_plugin_module *m)
{
  switch (m->descriptor->kind) {
  case LLS_KIND_SCHEDULER:
    return (struct keeper){m->scheduler.export_state, m->scheduler.import_state};
  case LLS_KIND_CACHE:
    return (struct keeper){m->cache.export_state, m->cache.import_state};
  case LLS_KIND_DRAFTER:
    return (struct keeper){m->drafter.export_state, m->drafter.import_state};
  default:
    return (struct keeper){m->predictor.export_state, m->predictor.import_state};
  }
}

static void import_foreign(struct findings *f, const struct keeper *k, void *to,
                           const struct lls_blob *blob)
{
  struct lls_blob foreign = *blob;
  foreign.version += 1000000;
  int rc = k->import_state(to, &foreign);
  if (rc != -ENOTSUP)
    found(f,
          "import_state of version %u, which no plugin wrote: expected -ENOTSUP (%d), "
          "found "
          "%d",
          foreign.version, -ENOTSUP, rc);
}

/* Imports truncated state: the plugin may refuse it or use a part, but must not crash.
 * Each part ends where its memory ends. */
static void import_parts(const struct keeper *k, void *to, const struct lls_blob *blob)
{
  for (size_t cut = 0; blob->bytes > 0 && cut < 16; cut++) {
    struct lls_blob part = {.version = blob->version, .bytes = blob->bytes * cut / 16};
    part.data = malloc(part.bytes + 1);
    if (part.data == NULL)
      abort();
    memcpy(part.data, blob->data, part.bytes);
    (void)k->import_state(to, &part);
    free(part.data);
  }
}

/* Imports the running instance's exported state into other instances, truncated and
 * with a wrong version. */
static void damage(struct scene *scene, uint64_t step)
{
  struct findings *f = scene->watch.findings;
  struct keeper k = keeper_of(scene->generations[0].watched.real);
  struct scene_options o = roomy(scene->subject->seed);
  struct lls_blob blob = {0};
  struct scene target;
  if (step != 20 || scene_open(&target, scene->subject, &o, f) < 0)
    return;
  int rc = k.export_state(scene->watch.latest, &blob);
  if (rc < 0)
    found(f, "export_state failed: %s", strerror(-rc));
  else if (blob.bytes > 0 && blob.data == NULL)
    found(f, "export_state gives %zu bytes at NULL", blob.bytes);
  else {
    import_foreign(f, &k, target.watch.latest, &blob);
    import_parts(&k, target.watch.latest, &blob);
  }
  free(blob.data);
  scene_close(&target);
}

void check_blobs(const struct subject *s, struct findings *f)
{
  struct lls_plugin_module *m;
  if (lls_plugin_open(s->kind, s->path, &m, NULL) < 0)
    return;
  if (keeper_of(m).export_state != NULL)
    run(s, f, s->seed, damage);
  else
    skipped(f, "no export_state: a reload tells it of everybody anew");
  lls_plugin_close(m);
}
