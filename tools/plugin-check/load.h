/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of random kinds, run to their ends, and what must hold of every one: it ends
 * once, after all its tokens, at its own length unless it was cancelled or can't fit; and
 * afterwards all memory is back.
 */
#ifndef CHECK_LOAD_H
#define CHECK_LOAD_H

#include "tools/plugin-check/scene.h"

struct client {
  uint32_t prompt, length, max_new_tokens; /* tokens; the true length of the answer */
  uint64_t text;                           /* its tokens are drawn from */
  uint64_t arrival;                        /* step in which it comes */
  uint32_t cancel_after;                   /* tokens; UINT32_MAX = never */
  uint64_t cancel_delay, cancel_step;      /* steps from then on; the step, 0 = not yet */
  bool giant;                              /* fits no cache of this scene */
  bool submitted, cancelled;
  uint64_t id;
  uint32_t n_tokens, finished, reason;
};

struct load_options {
  uint32_t n;
  uint32_t max_prompt, max_length; /* tokens */
  uint32_t giant_prompt;           /* of one in eight, 0 = none */
  bool cancels;                    /* one in three is cancelled at some time */
  bool late_cancels;               /* some steps after the token that calls for it */
  bool trickle;                    /* they come over time, not at once */
  bool shared;                     /* half of them begin alike */
  /* of blocks of so many tokens that are often the same, behind the same ones and behind
   * others; a third are the one before once more; 0: any tokens */
  uint32_t alike;
  uint64_t abandon_after; /* steps, then it ends as it is; 0 = never */
  void (*each_step)(struct scene *, uint64_t step);
};

struct load {
  struct scene *scene;
  struct load_options options;
  struct dice dice;
  struct client *clients; /* (options.n) */
  uint32_t ended, rejected;
  uint64_t steps, moved; /* step of the last event */
};

/* Runs it and adds what is wrong to the scene's findings. */
void load_run(struct load *, struct scene *, const struct load_options *, uint64_t seed);
void load_free(struct load *);

#endif
