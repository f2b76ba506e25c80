/* SPDX-License-Identifier: Apache-2.0 */
/* See room.h. */
#include <llmserve/policy/check.h>
#include <llmserve/policy/room.h>

/* Tokens of the prefill whose estimate shows whether there is a cost model. */
enum { ASKED = 32 };

void lls_pol_room_begin(struct lls_pol_room *r, const struct lls_cost *cost,
                        const uint32_t *decodes, uint32_t n_decodes)
{
  r->cost = cost;
  r->within_ns = LLS_NEVER;
  r->decodes = decodes;
  r->n_decodes = n_decodes;
  r->n_chunks = 0;
}

bool lls_pol_room_known(const struct lls_cost *cost)
{
  return cost->prefill_ns(cost->context, ASKED, 0) != LLS_NEVER;
}

int64_t lls_pol_room_ns(struct lls_pol_room *r, uint32_t context, uint32_t tokens)
{
  r->chunks[r->n_chunks] = (struct lls_chunk_shape){.tokens = tokens, .context = context};
  const struct lls_iteration_shape shape = {.size = sizeof shape,
                                            .chunks = r->chunks,
                                            .n_chunks = r->n_chunks + (tokens > 0),
                                            .n_decodes = r->n_decodes,
                                            .decode_context = r->decodes};
  return r->cost->iteration_ns(r->cost->context, &shape);
}

/* Returns the most tokens between low and high whose step fits into within_ns. The time
 * of a step is nearly linear in its tokens, so interpolation evaluates the model six
 * times at most; bisection took thirteen evaluations, most of the time of a plan. */
static uint32_t interpolate(struct lls_pol_room *r, uint32_t context, uint32_t low,
                            uint32_t high, int64_t high_ns)
{
  int64_t low_ns = lls_pol_room_ns(r, context, low);
  for (int i = 0; i < 4 && low_ns < r->within_ns && high - low > 1 + low / 64; i++) {
    double part = (double)(r->within_ns - low_ns) / (double)(high_ns - low_ns);
    uint32_t middle = low + (uint32_t)(part * (high - low));
    middle = middle <= low ? low + 1 : middle >= high ? high - 1 : middle;
    int64_t ns = lls_pol_room_ns(r, context, middle);
    bool fits = ns <= r->within_ns;
    *(fits ? &low : &high) = middle;
    *(fits ? &low_ns : &high_ns) = ns;
  }
  return low;
}

uint32_t lls_pol_room_tokens(struct lls_pol_room *r, uint32_t context, uint32_t low,
                             uint32_t most)
{
  LLS_POL_CHECK(r->within_ns != LLS_NEVER);
  if (most <= low)
    return most;
  int64_t ns = lls_pol_room_ns(r, context, most);
  return ns <= r->within_ns ? most : interpolate(r, context, low, most, ns);
}

/* Replaces two chunks by one with the same number of tokens and of attention pairs, which
 * is tokens (context + tokens / 2). */
static struct lls_chunk_shape merged(const struct lls_chunk_shape *a,
                                     const struct lls_chunk_shape *b)
{
  double tokens = (double)a->tokens + b->tokens;
  double pairs = a->tokens * (a->context + a->tokens / 2.0) +
                 b->tokens * (b->context + b->tokens / 2.0);
  double context = pairs / tokens - tokens / 2;
  return (struct lls_chunk_shape){.tokens = (uint32_t)tokens,
                                  .context = context > 0 ? (uint32_t)context : 0};
}

void lls_pol_room_add(struct lls_pol_room *r, uint32_t context, uint32_t tokens)
{
  const struct lls_chunk_shape chunk = {.tokens = tokens, .context = context};
  struct lls_chunk_shape *last = &r->chunks[LLS_POL_ROOM_CHUNKS - 1];
  if (r->n_chunks < LLS_POL_ROOM_CHUNKS)
    r->chunks[r->n_chunks++] = chunk;
  else
    *last = merged(last, &chunk);
}
