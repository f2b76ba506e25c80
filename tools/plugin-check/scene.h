/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance on the simulated device with the plugin in question in it, under watch, and
 * companions for the other two kinds. The loop is the daemon's own, stepped by hand.
 */
#ifndef CHECK_SCENE_H
#define CHECK_SCENE_H

#include "t/dice.h"
#include "t/harness.h"
#include "tools/plugin-check/watch.h"

struct subject { /* what is checked, and how */
  const char *path;
  const char *const *parameters; /* "key", "value", ..., NULL */
  uint32_t kind;                 /* enum lls_plugin_kind */
  const char *id;
  const char *companions[LLS_KIND_PREDICTOR + 1][2]; /* by kind; NULL = the usual ones */
  const char *model;                                 /* a folder with a config.json */
  uint64_t seed;
  bool needs_roles; /* a scheduler that runs on nothing less than two instances */
  bool fail_fast;
  int64_t patience_ns;   /* CPU time of a check before it is taken to hang */
  int64_t time_limit_ns; /* of a plan among 1,600 candidates, 0 = none */
};

struct scene;

struct scene_options {
  uint32_t block_tokens, device_units, host_units;
  uint32_t max_tokens, max_sequences, max_context, max_requests;
  uint32_t window; /* of every layer, tokens; 0 = none */
  uint64_t seed;
  uint32_t instances;        /* 0: one, or as many as the subject needs */
  bool roles;                /* the first prefills, the last decodes, others do both */
  bool transfers;            /* a companion that moves memory beside the steps */
  FILE *journal;             /* of decisions, or NULL */
  bool light;                /* see struct watch */
  const struct scene *share; /* its copy of the plugin's code is used, or NULL */
};

#define MAX_GENERATIONS 128

struct generation { /* the plugin, loaded once more */
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
  struct generation *generations; /* (n_generations); the first is the harness's */
  uint32_t n_generations;
  bool with_mover; /* the scheduler is the kit's own (mover.h) */
  int log;         /* a file in memory */
  void *context;   /* of who opened it */
};

/* The companions of the subject, NULL-terminated. Schedulers take turns by seed; the
 * second cache manager is the one where memory moves beside the steps. */
const char *const *companion_names(const struct subject *, uint32_t kind);

/* 0, or -errno after a finding. */
int scene_open(struct scene *, const struct subject *, const struct scene_options *,
               struct findings *);
void scene_close(struct scene *);

/* The scheduler's needs, enum lls_scheduler_needs; 0 where it can't be asked. */
uint32_t scene_needs(const struct subject *, struct findings *);

/* One step of the instance whose turn it is; its clock and those of the others are moved
 * on to that time, or by a millisecond where nothing has anything to do. As
 * lls_loop_step. */
int scene_step(struct scene *);

/* Loads a plugin of the subject's kind (NULL: the subject itself, under watch) and puts
 * it in the place of the one that runs. 0, or -errno after a finding. */
int scene_reload(struct scene *, const char *name);

/* The first line of the log with these words, malloc'ed; NULL if there is none. */
char *scene_log_line(const struct scene *, const char *words);

#endif
