/* SPDX-License-Identifier: Apache-2.0 */
/* Writes errors as Anthropic's clients expect them; see messages.h. */
#include <string.h>

#include "core/api/anthropic/messages.h"

#define OVERLOADED 529

/* Returns true if the server has no room now. A 429 is for a client that used up its own
 * share, a 503 for a server whose engine has failed. */
static bool is_overload(const struct lls_api_error *error)
{
  static const char *const codes[] = {"queue_full", "rejected"};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (error->code != NULL && strcmp(error->code, codes[i]) == 0)
      return true;
  bool failed = error->code != NULL && strcmp(error->code, "engine_error") == 0;
  return error->status == 503 && !error->hopeless && !failed;
}

unsigned lls_messages_status(const struct lls_api_error *error)
{
  return is_overload(error) ? OVERLOADED : error->status;
}

static const char *type_of(const struct lls_api_error *error)
{
  static const struct {
    unsigned status;
    const char *type;
  } types[] = {
      {401, "authentication_error"},    {403, "permission_error"},
      {404, "not_found_error"},         {413, "request_too_large"},
      {429, "rate_limit_error"},        {504, "timeout_error"},
      {OVERLOADED, "overloaded_error"},
  };
  unsigned status = lls_messages_status(error);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].status == status)
      return types[i].type;
  return status < 500 ? "invalid_request_error" : "api_error";
}

/* Agents shorten a conversation when they read "prompt is too long". */
json_t *lls_messages_error(const struct lls_api_error *error)
{
  bool is_long =
      error->code != NULL && strcmp(error->code, "context_length_exceeded") == 0;
  json_t *message = lls_api_error_message(error);
  if (is_long && message != NULL) {
    json_t *shown = json_sprintf("prompt is too long: %s", json_string_value(message));
    json_decref(message);
    message = shown;
  }
  return json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type",
                   type_of(error), "message", message);
}
