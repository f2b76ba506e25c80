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

/*
 * Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), absorbed. A
 * token is cached as its latent of `rank` numbers, and `rope` rotated ones, once for all
 * heads. Keys and values are linear in the latent, so each head's query is multiplied by
 * its keys' matrix, turned around, and what the head attends to is multiplied by its
 * values' matrix.
 */
struct lls_latent_shape {
  uint32_t heads, nope, rope; /* a head's query: `nope` numbers, then `rope` rotated */
  uint32_t rank, value;       /* latent; output of a head */
  const float *norm;          /* (rank) weights of the latent's RMS norm */
  float epsilon;
  /* With LLS_EXTRA_INDEX: each head of rows has `index` more numbers, which are 0 but in
   * the cached one: there those of index_keys (n_rows, index), or 0 if that is NULL. */
  uint32_t index;
  const void *index_keys;
};

/* The index of DeepSeek V3.2: a token's key is the last `dim` numbers of what a latent
 * layer caches of it. */
struct lls_index_shape {
  uint32_t heads, dim;
  uint32_t chosen; /* tokens of a row */
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
  LLS_EXTRA_INDEX = 8192,         /* choose, and attention to the chosen tokens */
  LLS_EXTRA_ALL = 16383,
};

#endif
