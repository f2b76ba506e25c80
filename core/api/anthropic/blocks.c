/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the types and cache hints of content blocks, and signs thinking blocks, which
 * clients send back unchanged. A thinking block whose signature is another server's is no
 * thought of this model and is left out; one that was changed is refused.
 */
#include <stdio.h>
#include <string.h>

#include "core/api/anthropic/messages.h"

#define PREFIX      "llmserve-1-"
#define PLACE_BYTES 96

_Static_assert(sizeof PREFIX - 1 + LLS_SHA256_HEX <= LLS_SIGNATURE_BYTES, "it fits");

bool lls_messages_is(const json_t *object, const char *type)
{
  const char *found = json_string_value(json_object_get(object, "type"));
  return found != NULL && strcmp(found, type) == 0;
}

/* ---- cache_control ----------------------------------------------------------------- */

struct hints {
  const char *ttl; /* the longest so far; NULL: none */
  struct lls_api_error *error;
};

static int fail_hint(struct hints *h, const char *place, const char *why)
{
  return lls_api_fail(h->error, 400, NULL, "cache_control", "%scache_control%s", place,
                      why);
}

/* Takes the object's hint, if that is longer. Anthropic has two times. `place`: where the
 * object is, with a dot behind. Returns -1 if it is none. */
static int take_hint(struct hints *h, const json_t *object, const char *place)
{
  const json_t *hint = json_object_get(object, "cache_control");
  const json_t *ttl = json_object_get(hint, "ttl");
  const char *type = json_string_value(json_object_get(hint, "type"));
  const char *given = json_string_value(ttl);
  if (hint == NULL || json_is_null(hint))
    return 0;
  if (!json_is_object(hint))
    return fail_hint(h, place, " must be an object");
  if (type == NULL || strcmp(type, "ephemeral") != 0)
    return fail_hint(h, place, ".type must be \"ephemeral\"");
  bool is_long = given != NULL && strcmp(given, "1h") == 0;
  if (ttl != NULL && !json_is_null(ttl) && !is_long &&
      (given == NULL || strcmp(given, "5m") != 0))
    return fail_hint(h, place, ".ttl must be \"5m\" or \"1h\"");
  if (is_long)
    h->ttl = "1h";
  else if (h->ttl == NULL)
    h->ttl = "5m";
  return 0;
}

static int take_hints(struct hints *h, const json_t *list, const char *place)
{
  char here[PLACE_BYTES];
  size_t i;
  const json_t *object;
  json_array_foreach((json_t *)list, i, object)
  {
    snprintf(here, sizeof here, "%s%zu.", place, i);
    if (take_hint(h, object, here) != 0)
      return -1;
  }
  return 0;
}

/* Takes the hints of a message's blocks, and of the blocks in results of tools. */
static int take_message_hints(struct hints *h, const json_t *message, size_t index)
{
  char place[PLACE_BYTES];
  size_t i;
  const json_t *block, *content = json_object_get(message, "content");
  snprintf(place, sizeof place, "messages.%zu.content.", index);
  if (take_hints(h, content, place) != 0)
    return -1;
  json_array_foreach((json_t *)content, i, block)
  {
    snprintf(place, sizeof place, "messages.%zu.content.%zu.content.", index, i);
    if (take_hints(h, json_object_get(block, "content"), place) != 0)
      return -1;
  }
  return 0;
}

int lls_messages_hint(const json_t *body, const char **ttl, struct lls_api_error *error)
{
  struct hints h = {.error = error};
  size_t i;
  const json_t *message;
  if (take_hint(&h, body, "") != 0 ||
      take_hints(&h, json_object_get(body, "system"), "system.") != 0 ||
      take_hints(&h, json_object_get(body, "tools"), "tools.") != 0)
    return -1;
  json_array_foreach(json_object_get(body, "messages"), i, message)
  {
    if (take_message_hints(&h, message, i) != 0)
      return -1;
  }
  *ttl = h.ttl;
  return 0;
}

void lls_thinking_sign(struct lls_sha256 *sum, char signature[LLS_SIGNATURE_BYTES])
{
  char hex[LLS_SHA256_HEX];
  lls_sha256_end(sum, hex);
  snprintf(signature, LLS_SIGNATURE_BYTES, PREFIX "%s", hex);
}

enum lls_thinking lls_thinking_check(const json_t *text, const json_t *signature)
{
  char ours[LLS_SIGNATURE_BYTES];
  struct lls_sha256 sum;
  const char *given = json_string_value(signature);
  if (given == NULL || strncmp(given, PREFIX, sizeof PREFIX - 1) != 0)
    return LLS_THINKING_FOREIGN;
  lls_sha256_begin(&sum);
  lls_sha256_add(&sum, json_string_value(text), json_string_length(text));
  lls_thinking_sign(&sum, ours);
  return strcmp(given, ours) == 0 ? LLS_THINKING_OURS : LLS_THINKING_CHANGED;
}
