/* SPDX-License-Identifier: Apache-2.0 */
/* States are built from back to front: each part receives the state that follows it.
 * See regex_states.h. */
#include "text/grammar/regex_states.h"

#include "text/base/utf8.h"

#include <stdlib.h>

static uint32_t put(struct lls_regex_states *s, struct lls_regex_state state)
{
  if (s->n == s->most)
    return LLS_REGEX_END;
  s->list[s->n] = state;
  return s->n++;
}

static uint32_t split(struct lls_regex_states *s, uint32_t out, uint32_t other)
{
  return out == LLS_REGEX_END || other == LLS_REGEX_END
             ? LLS_REGEX_END
             : put(s, (struct lls_regex_state){
                          .kind = LLS_REGEX_STATE_SPLIT, .out = out, .other = other});
}

static uint32_t add(struct lls_regex_states *s, const struct lls_regex *regex,
                    uint32_t at, uint32_t next);

static uint32_t add_sequence(struct lls_regex_states *s, const struct lls_regex *regex,
                             uint32_t part, uint32_t next)
{
  if (part == LLS_REGEX_END)
    return next;
  uint32_t then = add_sequence(s, regex, regex->nodes[part].next, next);
  return then == LLS_REGEX_END ? then : add(s, regex, part, then);
}

/* A choice without parts becomes a state without ranges, which no text leaves. */
static uint32_t add_choice(struct lls_regex_states *s, const struct lls_regex *regex,
                           uint32_t part, uint32_t next)
{
  uint32_t all = LLS_REGEX_END;
  if (part == LLS_REGEX_END)
    return put(s, (struct lls_regex_state){.kind = LLS_REGEX_STATE_RANGES});
  for (bool first = true; part != LLS_REGEX_END; part = regex->nodes[part].next) {
    uint32_t one = add(s, regex, part, next);
    all = first ? one : split(s, one, all);
    first = false;
    if (all == LLS_REGEX_END)
      break;
  }
  return all;
}

static uint32_t add_repeat(struct lls_regex_states *s, const struct lls_regex *regex,
                           const struct lls_regex_node *node, uint32_t next)
{
  uint32_t at = next;
  if (node->max == LLS_GRAMMAR_UNBOUNDED) {
    at = split(s, next, next);
    uint32_t body = at == LLS_REGEX_END ? at : add(s, regex, node->part, at);
    if (body == LLS_REGEX_END)
      return body;
    s->list[at].other = body;
  } else
    for (uint32_t i = node->min; i < node->max && at != LLS_REGEX_END; i++)
      at = split(s, add(s, regex, node->part, at), next);
  for (uint32_t i = 0; i < node->min && at != LLS_REGEX_END; i++) {
    uint32_t before = add(s, regex, node->part, at);
    if (before == at) /* the part is empty, so its repetitions are too */
      break;
    at = before;
  }
  return at;
}

static uint32_t add(struct lls_regex_states *s, const struct lls_regex *regex,
                    uint32_t at, uint32_t next)
{
  const struct lls_regex_node *node = &regex->nodes[at];
  switch (node->kind) {
  case LLS_REGEX_CLASS:
    return put(s, (struct lls_regex_state){
                      .kind = LLS_REGEX_STATE_RANGES,
                      .out = next,
                      .ranges = node->n_ranges > 0 ? regex->ranges + node->range : NULL,
                      .n_ranges = node->n_ranges});
  case LLS_REGEX_REPEAT:
    return add_repeat(s, regex, node, next);
  case LLS_REGEX_CHOICE:
    return add_choice(s, regex, node->part, next);
  default:
    return add_sequence(s, regex, node->part, next);
  }
}

static uint32_t put_end(struct lls_regex_states *s, uint32_t end)
{
  return put(s, (struct lls_regex_state){.kind = LLS_REGEX_STATE_END, .out = end});
}

uint32_t lls_regex_states_add(struct lls_regex_states *s, const struct lls_regex *regex,
                              uint32_t root, uint32_t end)
{
  uint32_t last = put_end(s, end);
  return last == LLS_REGEX_END ? last : add(s, regex, root, last);
}

uint32_t lls_regex_states_text(struct lls_regex_states *s, const char *text, size_t n,
                               uint32_t end)
{
  uint32_t first = s->n + 1;
  for (size_t at = 0; at < n; at += lls_utf8_length(text + at)) {
    uint32_t point = (uint32_t)lls_utf8_char(text + at);
    if (put(s, (struct lls_regex_state){.kind = LLS_REGEX_STATE_RANGES,
                                        .out = s->n + 1,
                                        .n_ranges = 1,
                                        .one = {point, point}}) == LLS_REGEX_END)
      return LLS_REGEX_END;
  }
  return put_end(s, end) == LLS_REGEX_END ? LLS_REGEX_END : first - 1;
}
