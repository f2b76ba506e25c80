/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that dialects share to write answers: see dialect.h and generation.h. */
#include "core/api/dialect.h"

#include "core/api/generation.h"
#include "core/http/sse.h"

/* ---- streams ---------------------------------------------------------------------- */

static void send_data(struct lls_http_exchange *exchange, const json_t *event,
                      const char *text, size_t length)
{
  (void)event;
  lls_sse_data(exchange, text, length);
}

static void send_named(struct lls_http_exchange *exchange, const json_t *event,
                       const char *text, size_t length)
{
  const char *name = json_string_value(json_object_get(event, "type"));
  lls_sse_event(exchange, name, text, length);
}

const struct lls_framing lls_framing_data = {
    .begin = lls_sse_begin,
    .send = send_data,
    .keep_alive = lls_sse_comment,
    .end = lls_sse_end,
};

/* Clients take the last event as the end, so [DONE] is not sent. */
const struct lls_framing lls_framing_unended = {
    .begin = lls_sse_begin,
    .send = send_data,
    .keep_alive = lls_sse_comment,
    .end = lls_http_stream_end,
};

const struct lls_framing lls_framing_named = {
    .begin = lls_sse_begin,
    .send = send_named,
    .keep_alive = lls_sse_comment,
    .end = lls_http_stream_end,
};

/* ---- what an answer says ----------------------------------------------------------- */

/* Returns the prompt tokens found in the cache. Of the choices of one prompt the one with
 * the fewest counts: it computed the prompt, and the other choices then found its
 * blocks. */
static int64_t cached_tokens(const struct lls_generation *generation)
{
  uint32_t n = (uint32_t)generation->params.n;
  int64_t sum = 0;
  for (uint32_t first = 0; first < generation->n_choices; first += n) {
    uint32_t least = UINT32_MAX;
    for (uint32_t i = first; i < first + n; i++)
      if (generation->choices[i].shared_tokens < least)
        least = generation->choices[i].shared_tokens;
    sum += least != UINT32_MAX ? least : 0;
  }
  return sum;
}

json_t *lls_choice_text(const struct lls_choice *choice)
{
  return json_stringn(choice->ready > 0 ? choice->text.data : "", choice->ready);
}

struct lls_usage lls_generation_usage(const struct lls_generation *generation)
{
  struct lls_usage usage = {.cached = cached_tokens(generation)};
  for (size_t i = 0; i < generation->prompts.count; i++)
    usage.prompt += (int64_t)generation->prompts.prompts[i].n_tokens;
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    usage.completion += generation->choices[i].n_tokens;
    usage.reasoning += generation->choices[i].n_reasoning;
  }
  return usage;
}
