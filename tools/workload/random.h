/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counter-based random numbers: the n-th draw of a generator is a hash (splitmix64's
 * finaliser) of its key and n, and the key is a hash of (seed, stream, index). So every
 * item has its own generators, and an additional draw for one item does not change
 * another item's.
 */
#ifndef LLS_WORKLOAD_RANDOM_H
#define LLS_WORKLOAD_RANDOM_H

#include <stdint.h>

/* purposes of draws. The numbers are part of the meaning of a seed: only append */
enum lls_stream {
  LLS_STREAM_SHUFFLE,
  LLS_STREAM_ARRIVAL,
  LLS_STREAM_INPUT,
  LLS_STREAM_OUTPUT,
  LLS_STREAM_CLASS,
  LLS_STREAM_TTFT,
  LLS_STREAM_TBT,
  LLS_STREAM_COMPLETION,
  LLS_STREAM_TENANT,
  LLS_STREAM_JITTER,
  LLS_STREAM_TOKENS,
  LLS_STREAM_BLOCKS,
  LLS_STREAM_BATCH_INPUT,
  LLS_STREAM_BATCH_OUTPUT,
  /* draws of a load generator: cancellations, slow readers */
  LLS_STREAM_CLIENT,
  LLS_STREAM_BOOTSTRAP,
  LLS_STREAM_ANSWER, /* ids in place of an answer, for the next turn */
  LLS_STREAM_SESSION,
};

struct lls_random {
  uint64_t key, draws;
};

struct lls_random lls_random_at(uint64_t seed, enum lls_stream stream, uint64_t index);

uint64_t lls_random_next(struct lls_random *);
/* Returns a number in 0..bound-1. */
uint64_t lls_random_below(struct lls_random *, uint64_t bound);
/* Returns a number in [0, 1). */
double lls_random_uniform(struct lls_random *);
/* Normal: mean 0, standard deviation 1. */
double lls_random_normal(struct lls_random *);
/* Gamma: mean shape * scale, variance shape * scale^2; shape 1 is exponential. */
double lls_random_gamma(struct lls_random *, double shape, double scale);

#endif
