/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance on the simulated device with the checked plugin in it, under watch, and
 * companion plugins of the other kinds. The loop is the daemon's own, stepped by
 * the checks.
 */
#ifndef CHECK_SCENE_H
#define CHECK_SCENE_H

#include "t/dice.h"
#include "t/harness.h"
#include "tools/plugin-check/watch.h"

struct subject { /* the plugin to check, and how */
  const char *path;
  const char *const *parameters; /* "key", "value", ..., NULL */
  uint32_t kind;                 /* enum lls_plugin_kind */
  const char *id;
  /* names and parameters of the other policies, by kind; NULL: the defaults */
  const char *companions[LLS_KIND_DRAFTER + 1][2];
  const char *model; /* a folder with a config.json */
  const char *only;  /* words of the checks to make, or NULL */
  uint64_t seed;
  bool needs_roles; /* a scheduler that needs at least two instances */
  bool fail_fast;
  int64_t patience_ns;   /* CPU time after which a check counts as hung */
  int64_t time_limit_ns; /* limit for a plan with 1,600 candidates; 0: none */
};

struct scene;

struct scene_options {
  uint32_t block_tokens, device_units, host_units;
  uint32_t max_tokens, max_sequences, max_context, max_requests;
  uint32_t window; /* attention window of every layer, in tokens; 0: none */
  uint64_t seed;
  uint32_t instances; /* 0: one, or as many as the plugin needs */
  /* the first instance prefills, the last decodes, others do both */
  bool roles;
  /* use a companion that moves memory concurrently with steps */
  bool transfers;
  FILE *journal; /* where decisions are written, or NULL */
  bool light;    /* see struct watch */
  /* another scene whose copy of the plugin's code is used, or NULL */
  const struct scene *share;
};

#define MAX_GENERATIONS 128

struct generation { /* one loaded copy of the plugin */
  struct harness_loaded loaded;
  struct watched watched;
  struct handed handed;
};

struct scene {
  const struct subject *subject;
  const struct scene *share;
  struct harness h;
  struct lls_sim_options sim;
  struct watch watch;
  struct generation *generations; /* (n_generations); the first one is the harness's */
  uint32_t n_generations;
  bool with_mover; /* the scheduler is the test kit's own (mover.h) */
  int log;         /* descriptor of a file in memory */
  void *context;   /* the caller's, for its callbacks */
};

/* Returns the companions of the subject, NULL-terminated. Schedulers alternate by seed;
 * the second cache manager is used where memory moves concurrently with steps. */
const char *const *companion_names(const struct subject *, uint32_t kind);

/* Returns 0, or -errno after a finding. */
int scene_open(struct scene *, const struct subject *, const struct scene_options *,
               struct findings *);
void scene_close(struct scene *);

/* Returns the scheduler's needs, enum lls_scheduler_needs; 0 if they cannot be found
 * out. */
uint32_t scene_needs(const struct subject *, struct findings *);

/* Runs one step of the instance whose turn it is. All instances' clocks are advanced to
 * that time, or by a millisecond if no instance has work. Returns as lls_loop_step. */
int scene_step(struct scene *);

/* Loads a plugin of the subject's kind (NULL: the subject itself, under watch) and
 * replaces the running one. Returns 0, or -errno after a finding. */
int scene_reload(struct scene *, const char *name);

/* Returns the first line of the log that contains these words, malloc'ed; NULL if there
 * is none. */
char *scene_log_line(const struct scene *, const char *words);

#endif
