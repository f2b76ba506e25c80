/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plugin under load of many shapes; see checks.h. The conditions that must hold
 * are in load.c and in the watch_ files. */
#include "tools/plugin-check/checks.h"
#include "tools/plugin-check/load.h"

#include <inttypes.h>

#define CONTEXT 512
#define SHAPES  12 /* number of random workloads */

/* Returns the units that hold `tokens` tokens of one sequence. */
static uint32_t units_of(uint32_t tokens, uint32_t block_tokens)
{
  return 2 * ((tokens + block_tokens - 1) / block_tokens);
}

/* Returns an instance with random options: small or large blocks, steps and memory. */
static struct scene_options any_scene(struct dice *d, uint64_t seed)
{
  static const uint32_t blocks[] = {8, 16, 32}, tokens[] = {64, 256, 2048},
                        sequences[] = {4, 16, 64};
  uint32_t block = blocks[dice(d, 0, 2)];
  uint32_t units = units_of(CONTEXT, block) * dice(d, 2, 12);
  return (struct scene_options){
      .block_tokens = block,
      .device_units = units,
      .host_units = dice(d, 0, 1) == 1 ? units : 0,
      .max_tokens = tokens[dice(d, 0, 2)],
      .max_sequences = sequences[dice(d, 0, 2)],
      .max_context = CONTEXT,
      .max_requests = 64,
      .seed = seed,
  };
}

static void run(const struct subject *s, struct findings *f,
                const struct scene_options *o, const struct load_options *load,
                uint32_t *rejected)
{
  struct scene scene;
  struct load l;
  if (scene_open(&scene, s, o, f) < 0)
    return;
  load_run(&l, &scene, load, o->seed);
  *rejected += l.rejected;
  load_free(&l);
  scene_close(&scene);
}

void check_alone(const struct subject *s, struct findings *f)
{
  uint32_t rejected = 0;
  struct load_options one = {.n = 1, .max_prompt = 100, .max_length = 60};
  for (uint64_t seed = s->seed; seed < s->seed + 24 && f->n == 0; seed++) {
    struct dice d = {seed};
    struct scene_options o = any_scene(&d, seed);
    run(s, f, &o, &one, &rejected);
  }
  if (rejected > 0)
    found(f, "rejects a request that is alone, has no deadline that is near and fits");
}

void check_fuzz(const struct subject *s, struct findings *f)
{
  uint32_t rejected = 0;
  for (uint64_t seed = s->seed; seed < s->seed + SHAPES && f->n == 0; seed++) {
    struct dice d = {seed};
    struct scene_options o = any_scene(&d, seed);
    struct load_options load = {
        .n = 48,
        .max_prompt = dice(&d, 1, 3) * 60,
        .max_length = dice(&d, 1, 3) * 20,
        .cancels = dice(&d, 0, 1) == 1,
        .trickle = dice(&d, 0, 1) == 1,
        .shared = dice(&d, 0, 1) == 1,
    };
    run(s, f, &o, &load, &rejected);
  }
  if (rejected > 0)
    noted(f, "it rejected %u of %d requests", rejected, SHAPES * 48);
}

/* Memory for a few requests; some requests fit no memory of this size. */
void check_full(const struct subject *s, struct findings *f)
{
  uint32_t rejected = 0;
  for (uint64_t seed = s->seed; seed < s->seed + 4 && f->n == 0; seed++) {
    uint32_t units = units_of(320, 16);
    struct scene_options o = {
        .block_tokens = 16,
        .device_units = units,
        .host_units = seed % 2 == 0 ? 0 : units,
        .max_tokens = 512,
        .max_sequences = 32,
        .max_context = CONTEXT,
        .max_requests = 64,
        .seed = seed,
    };
    struct load_options load = {.n = 40,
                                .max_prompt = 80,
                                .max_length = 60,
                                .giant_prompt = seed % 4 < 2 ? 400 : 0,
                                .shared = seed % 4 == 3};
    run(s, f, &o, &load, &rejected);
  }
}

/* Prompts that differ early and agree later, and equal prompts of whole blocks; once
 * with memory for all, once with so little that cached blocks must be evicted. */
void check_prefixes(const struct subject *s, struct findings *f)
{
  uint32_t rejected = 0;
  for (uint64_t seed = s->seed; seed < s->seed + 12 && f->n == 0; seed++) {
    struct dice d = {seed};
    struct scene_options o = any_scene(&d, seed);
    o.device_units =
        units_of(seed % 3 == 0 ? 2048 : 160 + 64 * (seed % 3), o.block_tokens);
    struct load_options load = {.n = 60,
                                .max_prompt = 128,
                                .max_length = 12,
                                .cancels = seed % 4 == 3,
                                .trickle = seed % 2 == 0,
                                .alike = o.block_tokens};
    run(s, f, &o, &load, &rejected);
  }
}

/* Does the cache manager declare that a sequence may be longer than the pool? */
static bool gives_back(const struct subject *s)
{
  struct lls_plugin_module *m;
  if (s->kind != LLS_KIND_CACHE)
    return s->companions[LLS_KIND_CACHE][0] == NULL;
  if (lls_plugin_open(s->kind, s->path, &m, NULL) < 0)
    return false;
  bool does = lls_cache_keeps(&m->cache, LLS_GROUP_WINDOW);
  lls_plugin_close(m);
  return does;
}

/* Requests that outgrow their windows. Alternates between a pool that holds all of them
 * and one that holds three windows, for managers that free the blocks that left the
 * window. */
void check_window(const struct subject *s, struct findings *f)
{
  static const uint32_t windows[] = {1, 8, 16, 50, 100};
  uint32_t rejected = 0;
  for (uint64_t seed = s->seed; seed < s->seed + 16 && f->n == 0; seed++) {
    struct dice d = {seed};
    struct scene_options o = any_scene(&d, seed);
    o.window = windows[seed % 5];
    o.instances = seed % 4 == 3 ? 2 : 0;
    o.transfers = seed % 4 == 3;
    if (seed % 4 < 2 && gives_back(s)) {
      o.max_tokens = 64;
      o.device_units = 3 * (units_of(o.window + o.max_tokens, o.block_tokens) + 2);
      o.host_units = seed % 4 == 0 ? 0 : o.device_units;
    }
    struct load_options load = {.n = 30,
                                .max_prompt = 200,
                                .max_length = 120,
                                .cancels = seed % 3 == 0,
                                .trickle = seed % 2 == 0,
                                .alike = dice(&d, 0, 1) == 1 ? o.block_tokens : 0};
    run(s, f, &o, &load, &rejected);
  }
}

void check_cancel(const struct subject *s, struct findings *f)
{
  uint32_t rejected = 0;
  for (uint64_t seed = s->seed + 100; seed < s->seed + 106 && f->n == 0; seed++) {
    struct dice d = {seed};
    struct scene_options o = any_scene(&d, seed);
    struct load_options load = {
        .n = 60, .max_prompt = 120, .max_length = 40, .cancels = true, .trickle = true};
    run(s, f, &o, &load, &rejected);
  }
}

void check_abandon(const struct subject *s, struct findings *f)
{
  uint32_t rejected = 0;
  for (uint64_t seed = s->seed; seed < s->seed + 12; seed++) {
    struct dice d = {seed};
    struct scene_options o = any_scene(&d, seed);
    struct load_options load = {
        .n = 48, .max_prompt = 120, .max_length = 40, .abandon_after = 1 + 3 * seed % 40};
    run(s, f, &o, &load, &rejected);
  }
}
