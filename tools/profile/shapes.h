/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps to measure: prefill chunks, decodes and both together, over sizes and contexts
 * drawn at random, so that a fit is checked where it was not made.
 */
#ifndef LLS_PROFILE_TOOL_SHAPES_H
#define LLS_PROFILE_TOOL_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

enum lls_shape_kind { LLS_SHAPE_CHUNK, LLS_SHAPE_DECODE, LLS_SHAPE_MIXED };

struct lls_shape_limits {
  uint32_t max_rows, max_sequences, max_context;
  uint32_t cache_tokens; /* of all sequences together */
  uint32_t block_tokens;
};

struct lls_shape_part {
  uint32_t tokens, context;
  bool drawn; /* a token comes out */
};

struct lls_shape {
  uint32_t kind; /* enum lls_shape_kind */
  uint32_t n;
  struct lls_shape_part *parts; /* (n), the caller's memory: max_sequences of them */
};

/* Shape number `index` of a seed; its parts are written to shape->parts. */
void lls_shape_draw(const struct lls_shape_limits *, uint64_t seed, uint64_t index,
                    struct lls_shape *);

#endif
