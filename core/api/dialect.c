/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that dialects share to write answers: see dialect.h and generation.h. */
#include "core/api/dialect.h"

#include <stdio.h>
#include <string.h>

#include "core/api/generation.h"
#include "core/http/sse.h"

/* ---- bodies ------------------------------------------------------------------------ */

/* The names of JSON types in a struct lls_body_member, and in a sentence. */
static const struct {
  const char *name, *said;
} types[] = {[JSON_OBJECT] = {"object", "an object"},
             [JSON_ARRAY] = {"array", "an array"},
             [JSON_STRING] = {"string", "a string"},
             [JSON_INTEGER] = {"integer", "an integer"},
             [JSON_REAL] = {"number", "a number"},
             [JSON_TRUE] = {"boolean", "true or false"},
             [JSON_FALSE] = {"boolean", "true or false"}};

/* Returns true if `list`, words with '|' between them, has the word. */
static bool has_word(const char *list, const char *word)
{
  size_t length = strlen(word);
  for (; *list != '\0'; list += list[0] == '|') {
    size_t n = strcspn(list, "|");
    if (n == length && strncmp(list, word, n) == 0)
      return true;
    list += n;
  }
  return false;
}

/* Whole numbers may be written as 1.0, and are numbers. */
static bool has_type(const char *list, const json_t *value)
{
  bool number = json_is_number(value);
  return has_word(list, types[json_typeof(value)].name) ||
         (number && (has_word(list, "integer") || has_word(list, "number")));
}

static int refuse_type(const struct lls_body_member *member, struct lls_api_error *error)
{
  char said[96] = "";
  size_t used = 0;
  for (size_t i = 0; i < JSON_FALSE; i++)
    if (has_word(member->type, types[i].name) && used < sizeof said)
      used += (size_t)snprintf(said + used, sizeof said - used, "%s%s",
                               used > 0 ? " or " : "", types[i].said);
  return lls_api_fail(error, 400, NULL, member->name, "'%s' must be %s", member->name,
                      said);
}

int lls_dialect_check(const struct lls_body_member *members, const json_t *body,
                      struct lls_api_error *error)
{
  for (; members != NULL && members->name != NULL; members++) {
    const json_t *value = json_object_get(body, members->name);
    if (value == NULL || json_is_null(value) || members->type == NULL ||
        members->type[0] == '\0' || has_type(members->type, value))
      continue;
    return refuse_type(members, error);
  }
  return 0;
}

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

/* Adds the prompt tokens found in the cache, and those computed in whole blocks that
 * later requests can find, once the choices have ended. Of the
 * choices of one prompt the one with the fewest found counts: it computed the prompt, and
 * the other choices then found its blocks. */
static void count_cached(const struct lls_generation *generation, struct lls_usage *usage)
{
  uint32_t n = (uint32_t)generation->params.n;
  for (uint32_t first = 0; first < generation->n_choices; first += n) {
    uint32_t least = UINT32_MAX;
    for (uint32_t i = first; i < first + n; i++)
      if (generation->choices[i].shared_tokens < least)
        least = generation->choices[i].shared_tokens;
    if (least == UINT32_MAX)
      continue;
    uint32_t block = generation->api->config.block_tokens;
    size_t whole = generation->choices[first].prompt->n_tokens;
    whole -= block > 0 ? whole % block : whole;
    usage->cached += least;
    if (generation->choices[first].keeps_prefix && whole > least)
      usage->created += (int64_t)whole - least;
  }
}

json_t *lls_choice_text(const struct lls_choice *choice)
{
  return json_stringn(choice->ready > 0 ? choice->text.data : "", choice->ready);
}

struct lls_usage lls_generation_usage(const struct lls_generation *generation)
{
  struct lls_usage usage = {0};
  count_cached(generation, &usage);
  for (size_t i = 0; i < generation->prompts.count; i++)
    usage.prompt += (int64_t)generation->prompts.prompts[i].n_tokens;
  for (uint32_t i = 0; i < generation->n_choices; i++) {
    usage.completion += generation->choices[i].n_tokens;
    usage.reasoning += generation->choices[i].n_reasoning;
    usage.accepted += (int64_t)generation->choices[i].accepted;
    usage.rejected += (int64_t)generation->choices[i].rejected;
  }
  return usage;
}
