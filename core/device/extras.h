/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that only some models need, with their parameters. A device says which of
 * them it has, so that a model is refused by the name of a missing one. */
#ifndef LLS_CORE_DEVICE_EXTRAS_H
#define LLS_CORE_DEVICE_EXTRAS_H

#include <stdint.h>

/* xIELU (arXiv 2411.13010) with its parameters: for x > 0 positive x^2 + linear x, else
 * negative (e^min(x, least) - 1 - x) + linear x. */
struct lls_xielu {
  float positive, negative, linear, least;
};

/* Growth of queries with their position p, by which long contexts stay sharp: each is
 * multiplied by 1 + factor ln(1 + floor((p + offset) / every)). */
struct lls_query_growth {
  float factor; /* 0 = none */
  uint32_t every, offset;
};

#define LLS_MAX_STREAMS 8

/* The hidden states of a token in AltUp (arXiv 2301.13310): layers compute with the first
 * stream, and change the others by it. */
struct lls_streams {
  uint32_t n;
  void *x[LLS_MAX_STREAMS]; /* (n) each (n_rows, hidden) */
};

/* Operations that only some models need, and only some devices have;
 * lls_device.extras. */
enum lls_device_extra {
  LLS_EXTRA_SQUARED_RELU = 1,
  LLS_EXTRA_XIELU = 2,
  LLS_EXTRA_ALIBI = 4,
  LLS_EXTRA_QUERY_GROWTH = 8,
  LLS_EXTRA_ROUTER = 16,        /* the last members of struct lls_route */
  LLS_EXTRA_SHARED_GATE = 32,   /* gate_rows */
  LLS_EXTRA_LATENT = 64,        /* latent_rows, latent_values, caches without V */
  LLS_EXTRA_HEAD_SIZES = 128,   /* groups whose heads differ; queries_alone; norms of v */
  LLS_EXTRA_LAYER_INPUTS = 256, /* embed_layer, gate_inputs, scale */
  LLS_EXTRA_STATES = 512,       /* conv, delta, space, norm_gated, gate_columns */
  LLS_EXTRA_CHUNKS = 1024,      /* attention within chunks of tokens */
  LLS_EXTRA_PLAIN_EXPERTS = 2048, /* activate on all of their rows, with no padding */
  LLS_EXTRA_STREAMS = 4096,       /* predict, correct, match_size, cut_gates */
  LLS_EXTRA_ALL = 8191,
};

#endif
