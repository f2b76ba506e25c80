/* SPDX-License-Identifier: Apache-2.0 */
/* See deadline.h. */
#include <llmserve/policy/deadline.h>

static bool in_time(const struct lls_cost *cost, const struct lls_iteration_shape *shape,
                    int64_t deadline_ns)
{
  int64_t ns = cost->iteration_ns(cost->context, shape);
  return ns != LLS_NEVER && ns <= deadline_ns;
}

uint32_t lls_pol_deadline_tokens(const struct lls_cost *cost,
                                 const struct lls_pol_deadline_step *step, uint32_t low,
                                 uint32_t high, int64_t deadline_ns)
{
  struct lls_chunk_shape chunk = {.context = step->context};
  struct lls_iteration_shape shape = {.size = sizeof shape,
                                      .chunks = &chunk,
                                      .n_chunks = 1,
                                      .n_decodes = step->n_decodes,
                                      .decode_context = step->decodes};
  while (low < high) {
    chunk.tokens = low + (high - low + 1) / 2;
    if (in_time(cost, &shape, deadline_ns))
      low = chunk.tokens;
    else
      high = chunk.tokens - 1;
  }
  return low;
}
