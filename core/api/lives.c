/* SPDX-License-Identifier: Apache-2.0 */
/* See lives.h. */
#include "core/api/lives.h"

#include "core/config/limits.h"

struct lls_life_record *lls_lives_next(struct lls_lives *lives)
{
  return &lives->ring[lives->n++ % LLS_LIVES_KEPT];
}

json_t *lls_life_json(const struct lls_life *life)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < life->n; i++) {
    const struct lls_life_change *change = &life->changes[i];
    int64_t after_ns = change->at_ns - life->changes[0].at_ns;
    json_array_append_new(list, json_integer(change->phase));
    json_array_append_new(list, json_integer(after_ns / LLS_NS_PER_MS));
  }
  return list;
}

static json_t *text_json(const char *text)
{
  json_t *string = json_string(text); /* NULL if cut inside a character */
  return string != NULL ? string : json_null();
}

static json_t *row_json(const struct lls_life_record *r, int64_t now_ns, int64_t unix_ms)
{
  int64_t ended_ms = unix_ms - (now_ns - r->ended_ns) / LLS_NS_PER_MS;
  return json_pack("[I, o, I, o, I, I, I, I, i, s, I, I, o]", (json_int_t)r->request,
                   text_json(r->label), (json_int_t)r->request_class,
                   text_json(r->tenant), (json_int_t)r->prompt_tokens,
                   (json_int_t)r->generated_tokens, (json_int_t)r->shared_tokens,
                   (json_int_t)r->preemptions, r->judged ? (int)r->verdict : -1,
                   r->outcome, (json_int_t)ended_ms,
                   (json_int_t)((r->ended_ns - r->arrival_ns) / LLS_NS_PER_MS),
                   lls_life_json(&r->life));
}

json_t *lls_lives_json(const struct lls_lives *lives, uint64_t *from, uint32_t most,
                       int64_t now_ns, int64_t unix_ms)
{
  json_t *rows = json_array();
  uint64_t n = lives->n - *from;
  if (n > LLS_LIVES_KEPT)
    n = LLS_LIVES_KEPT;
  if (n > most)
    n = most;
  for (*from = lives->n - n; *from < lives->n; ++*from)
    json_array_append_new(
        rows, row_json(&lives->ring[*from % LLS_LIVES_KEPT], now_ns, unix_ms));
  return rows;
}
