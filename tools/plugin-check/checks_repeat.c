/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that runs more than once: the same load again, two instances interleaved,
 * and whether anything is leaked; see checks.h. */
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/checks.h"
#include "tools/plugin-check/heap.h"
#include "tools/plugin-check/load.h"

static const struct load_options busy = {.n = 40,
                                         .max_prompt = 120,
                                         .max_length = 40,
                                         .cancels = true,
                                         .trickle = true,
                                         .shared = true};

static struct scene_options crowded(uint64_t seed)
{
  return (struct scene_options){
      .block_tokens = 16,
      .device_units = 160,
      .host_units = 80,
      .max_tokens = 256,
      .max_sequences = 24,
      .max_context = 512,
      .max_requests = 64,
      .seed = seed,
  };
}

/* ---- journals ----------------------------------------------------------------- */

struct journal {
  FILE *file;
  char *text; /* malloc'ed */
  size_t bytes;
};

static void journal_open(struct journal *j)
{
  *j = (struct journal){0};
  j->file = open_memstream(&j->text, &j->bytes);
  if (j->file == NULL)
    abort();
}

static void journal_close(struct journal *j)
{
  fclose(j->file);
}

/* Reports where b first differs from a, if it does. */
static void compare(struct findings *f, const char *a, const char *b, const char *what)
{
  size_t line = 0;
  if (strcmp(a, b) == 0)
    return;
  for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
    if (a[i] == '\n')
      line = i + 1;
  found(f, "%s: first \"%.*s\", then \"%.*s\"", what, (int)strcspn(a + line, "\n"),
        a + line, (int)strcspn(b + line, "\n"), b + line);
}

/* Returns the plugin's decisions with this seed, malloc'ed. late: the plugin declares
 * that it answers asynchronously. */
static char *decisions(const struct subject *s, struct findings *f, uint64_t seed,
                       bool *late)
{
  struct journal j;
  struct scene scene;
  struct load l;
  struct scene_options o = crowded(seed);
  journal_open(&j);
  o.journal = j.file;
  if (scene_open(&scene, s, &o, f) == 0) {
    load_run(&l, &scene, &busy, seed);
    load_free(&l);
    *late = scene.watch.late;
    scene_close(&scene);
  }
  journal_close(&j);
  return j.text;
}

void check_determinism(const struct subject *s, struct findings *f)
{
  bool late = false;
  for (uint64_t seed = s->seed; seed < s->seed + 3 && f->n == 0 && !late; seed++) {
    char *first = decisions(s, f, seed, &late), *second = decisions(s, f, seed, &late);
    if (late)
      skipped(f, "it answers in its own time (-EINPROGRESS)");
    else
      compare(f, first, second, "the same requests, the same seed, other decisions");
    free(first);
    free(second);
  }
}

/* ---- two at a time ------------------------------------------------------------ */

struct other {
  struct scene scene;
  struct load load;
};

/* Runs the other instance's whole load between two steps of the first instance. */
static void run_other(struct scene *scene, uint64_t step)
{
  struct other *other = scene->context;
  if (step == 5)
    load_run(&other->load, &other->scene, &busy, 99);
}

static void run_beside(const struct subject *s, struct findings *f, struct other *other,
                       FILE *journal)
{
  struct scene scene;
  struct load l;
  struct scene_options o = crowded(s->seed);
  struct load_options load = busy;
  load.each_step = run_other;
  o.journal = journal;
  o.share = &other->scene;
  if (scene_open(&scene, s, &o, f) < 0)
    return;
  scene.context = other;
  load_run(&l, &scene, &load, s->seed);
  load_free(&l);
  scene_close(&scene);
  load_free(&other->load);
}

void check_side_by_side(const struct subject *s, struct findings *f)
{
  struct journal j;
  struct other other = {0};
  struct scene_options o = crowded(s->seed + 1);
  bool late = false;
  char *alone = decisions(s, f, s->seed, &late);
  journal_open(&j);
  if (f->n == 0 && scene_open(&other.scene, s, &o, f) == 0) {
    run_beside(s, f, &other, j.file);
    scene_close(&other.scene);
  }
  journal_close(&j);
  /* decisions of a plugin that answers late differ from run to run */
  if (f->n == 0 && !late)
    compare(f, alone, j.text,
            "it decides otherwise with a second instance beside it (a static that "
            "changes?)");
  free(alone);
  free(j.text);
}

/* ---- leaks -------------------------------------------------------------------- */

#define ROUNDS 8

/* One life of a plugin: created, loaded, destroyed in the middle or at its end. */
static void one_life(const struct subject *s, struct findings *f, uint64_t seed)
{
  struct scene scene;
  struct load l;
  struct scene_options o = crowded(seed);
  struct load_options load = busy;
  load.abandon_after = seed % 2 == 0 ? 25 : 0;
  if (scene_open(&scene, s, &o, f) < 0)
    return;
  load_run(&l, &scene, &load, seed);
  load_free(&l);
  scene_close(&scene);
}

void check_leaks(const struct subject *s, struct findings *f)
{
  size_t before = 0;
  if (!heap_is_counted()) {
    skipped(f, "the heap can't be counted here");
    return;
  }
  for (uint64_t i = 0; i < 3 * ROUNDS; i++) {
    if (i == ROUNDS) /* memory that is allocated only once exists then */
      before = heap_in_use();
    one_life(s, f, s->seed + i % 2);
  }
  size_t after = heap_in_use();
  if (after > before)
    found(f, "%zu bytes more are in use after %d lives: about %zu leak in each",
          after - before, 2 * ROUNDS, (after - before) / (2 * ROUNDS));
}
