/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs random requests to their ends. Every request must end once, after all its tokens
 * and at its own length, unless it was cancelled or cannot fit; afterwards all memory
 * must be back.
 */
#ifndef CHECK_LOAD_H
#define CHECK_LOAD_H

#include "tools/plugin-check/scene.h"

struct client {
  /* tokens; length: the true length of the answer */
  uint32_t prompt, length, max_new_tokens;
  uint64_t text;    /* seed of its tokens */
  uint64_t arrival; /* the step in which it arrives */
  /* tokens after which it is cancelled; UINT32_MAX: never */
  uint32_t cancel_after;
  /* steps that the cancellation is delayed; its step, 0: not yet */
  uint64_t cancel_delay, cancel_step;
  bool giant; /* too long for any cache of this scene */
  bool submitted, cancelled;
  uint64_t id;
  uint32_t n_tokens, finished, reason;
};

struct load_options {
  uint32_t n;
  uint32_t max_prompt, max_length; /* tokens */
  /* prompt tokens of one in eight; 0: no such requests */
  uint32_t giant_prompt;
  bool cancels; /* one in three requests is cancelled at some time */
  /* cancellations come some steps after the token that triggers them */
  bool late_cancels;
  bool trickle; /* requests arrive over time instead of all at once */
  /* half of the requests share the beginning of their prompts */
  bool shared;
  /* if not 0, prompts consist of blocks of this many tokens, of few kinds, so that
   * equal blocks follow equal and different ones; a third are copies of the prompt
   * before. 0: any tokens */
  uint32_t alike;
  uint64_t abandon_after; /* steps after which the load is abandoned; 0: never */
  void (*each_step)(struct scene *, uint64_t step);
};

struct load {
  struct scene *scene;
  struct load_options options;
  struct dice dice;
  struct client *clients; /* (options.n) */
  uint32_t ended, rejected;
  uint64_t steps, moved; /* moved: the step of the last event */
};

/* Runs a load and adds what is wrong to the scene's findings. */
void load_run(struct load *, struct scene *, const struct load_options *, uint64_t seed);
void load_free(struct load *);

#endif
