/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps to measure: prefill chunks, decodes and both together. Sizes and contexts are
 * drawn at random, so that a fit is checked on other steps than it was made from.
 */
#ifndef LLS_PROFILE_TOOL_SHAPES_H
#define LLS_PROFILE_TOOL_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

enum lls_shape_kind { LLS_SHAPE_CHUNK, LLS_SHAPE_DECODE, LLS_SHAPE_MIXED };

struct lls_shape_limits {
  uint32_t max_rows, max_sequences, max_context;
  uint32_t cache_tokens; /* all sequences together */
  uint32_t block_tokens;
};

struct lls_shape_part {
  uint32_t tokens, context;
  bool drawn; /* the sequence's last row is sampled */
};

struct lls_shape {
  uint32_t kind; /* enum lls_shape_kind */
  uint32_t n;
  struct lls_shape_part *parts; /* (n), in the caller's memory for max_sequences parts */
};

/* Draws shape number `index` of a seed; writes its parts to shape->parts. */
void lls_shape_draw(const struct lls_shape_limits *, uint64_t seed, uint64_t index,
                    struct lls_shape *);

#endif
