/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the types and cache hints of content blocks, and signs thinking blocks, which
 * clients send back unchanged. A thinking block whose signature is another server's is no
 * thought of this model and is left out; one that was changed is refused.
 */
#include <stdio.h>
#include <string.h>

#include "core/api/anthropic/messages.h"

#define PREFIX "llmserve-1-"

_Static_assert(sizeof PREFIX - 1 + LLS_SHA256_HEX <= LLS_SIGNATURE_BYTES, "it fits");

bool lls_messages_is(const json_t *object, const char *type)
{
  const char *found = json_string_value(json_object_get(object, "type"));
  return found != NULL && strcmp(found, type) == 0;
}

/* Takes the object's hint, if that is longer than *ttl. Anthropic has two times. */
static void take_hint(const json_t *object, const char **ttl)
{
  const json_t *hint = json_object_get(object, "cache_control");
  const char *given = json_string_value(json_object_get(hint, "ttl"));
  if (!json_is_object(hint))
    return;
  if (given != NULL && strcmp(given, "1h") == 0)
    *ttl = "1h";
  else if (*ttl == NULL)
    *ttl = "5m";
}

static void take_hints(const json_t *list, const char **ttl)
{
  size_t i;
  const json_t *object;
  json_array_foreach((json_t *)list, i, object) take_hint(object, ttl);
}

/* Takes the hints of a message's blocks, and of the blocks in results of tools. */
static void take_message_hints(const json_t *message, const char **ttl)
{
  size_t i;
  const json_t *block, *content = json_object_get(message, "content");
  take_hints(content, ttl);
  json_array_foreach((json_t *)content, i, block)
      take_hints(json_object_get(block, "content"), ttl);
}

const char *lls_messages_hint(const json_t *body)
{
  const char *ttl = NULL;
  size_t i;
  const json_t *message;
  take_hint(body, &ttl);
  take_hints(json_object_get(body, "system"), &ttl);
  take_hints(json_object_get(body, "tools"), &ttl);
  json_array_foreach(json_object_get(body, "messages"), i, message)
      take_message_hints(message, &ttl);
  return ttl;
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
