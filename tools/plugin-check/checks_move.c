/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plugin under load while requests move: to the host and back concurrently with
 * steps, and from one instance to another; see checks.h. The conditions that must hold
 * are in load.c, watch_transfer.c and watch_handover.c. */
#include "tools/plugin-check/checks.h"
#include "tools/plugin-check/load.h"

#define CONTEXT   512
#define SEEDS     8
#define INSTANCES 3

/* Device memory for a few of the longest requests, and host memory for as many
 * again. */
static struct scene_options any_scene(struct dice *d, uint64_t seed)
{
  static const uint32_t blocks[] = {8, 16, 32}, tokens[] = {64, 256, 2048};
  uint32_t block = blocks[dice(d, 0, 2)];
  uint32_t of_one = 2 * ((CONTEXT + block - 1) / block);
  return (struct scene_options){
      .block_tokens = block,
      .device_units = of_one * dice(d, 2, 5),
      .host_units = of_one * dice(d, 2, 8),
      .max_tokens = tokens[dice(d, 0, 2)],
      .max_sequences = dice(d, 4, 32),
      .max_context = CONTEXT,
      .max_requests = 64,
      .seed = seed,
  };
}

/* Runs one scene; returns how many requests moved in it. */
static uint32_t run(const struct subject *s, struct findings *f,
                    const struct scene_options *o, const struct load_options *load,
                    bool between_instances)
{
  struct scene scene;
  struct load l;
  if (scene_open(&scene, s, o, f) < 0)
    return 0;
  load_run(&l, &scene, load, o->seed);
  load_free(&l);
  uint32_t n = between_instances ? scene.watch.n_handed_over : scene.watch.n_transfers;
  scene_close(&scene);
  return n;
}

static void replace_now_and_then(struct scene *scene, uint64_t step)
{
  if (step % 41 == 40)
    scene_reload(scene, NULL);
}

static struct load_options any_load(struct dice *d, uint64_t seed)
{
  return (struct load_options){
      .n = 40,
      .max_prompt = dice(d, 1, 3) * 60,
      .max_length = dice(d, 1, 3) * 20,
      .cancels = seed % 2 == 1,
      .late_cancels = true,
      .trickle = dice(d, 0, 1) == 1,
      .shared = dice(d, 0, 1) == 1,
      .each_step = seed % 4 == 3 ? replace_now_and_then : NULL,
  };
}

static uint32_t run_all(const struct subject *s, struct findings *f, uint32_t instances,
                        bool roles)
{
  uint32_t moved = 0;
  for (uint64_t seed = s->seed; seed < s->seed + SEEDS && f->n == 0; seed++) {
    struct dice d = {seed};
    struct scene_options o = any_scene(&d, seed);
    struct load_options load = any_load(&d, seed);
    o.transfers = true;
    o.instances = instances;
    o.roles = roles;
    moved += run(s, f, &o, &load, instances > 1);
  }
  return moved;
}

static bool moves_memory(const struct subject *s)
{
  struct lls_plugin_module *m;
  if (lls_plugin_open(s->kind, s->path, &m, NULL) < 0)
    return false;
  bool moves = m->cache.offload != NULL;
  lls_plugin_close(m);
  return moves;
}

void check_transfers(const struct subject *s, struct findings *f)
{
  if (s->kind == LLS_KIND_PREDICTOR || s->kind == LLS_KIND_DRAFTER) {
    skipped(f, "a %s has no part in it", lls_plugin_kind_name(s->kind));
    return;
  }
  if (s->kind == LLS_KIND_CACHE && !moves_memory(s)) {
    skipped(f, "no offload: it moves nothing beside the steps");
    return;
  }
  uint32_t moved = run_all(s, f, 0, false);
  if (f->n > 0)
    return;
  if (moved > 0)
    noted(f, "%u transfers", moved);
  else if (s->companions[LLS_KIND_SCHEDULER][0] != NULL)
    skipped(f, "%s plans no OFFLOAD", s->companions[LLS_KIND_SCHEDULER][0]);
  else if (s->kind == LLS_KIND_CACHE)
    found(f, "offload and upload never moved anything in %d loads", SEEDS);
  else
    skipped(f, "it plans no OFFLOAD");
}

void check_instances(const struct subject *s, struct findings *f)
{
  bool roles = scene_needs(s, f) & (LLS_NEEDS_ROLES | LLS_USES_ROLES);
  uint32_t moved = run_all(s, f, INSTANCES, roles);
  if (f->n > 0)
    return;
  if (moved > 0)
    noted(f, "%u requests were handed over", moved);
  else if (roles)
    found(f, "hands no request over, so that decode instances never have any");
  else if (s->kind == LLS_KIND_SCHEDULER)
    noted(f, "%d instances, each with requests of its own", INSTANCES);
}
