/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the first bytes of a request's text and hashes them; see prefix_hash.h. */
#include "core/api/prefix_hash.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/sha256.h"

void lls_prefix_add(struct lls_prompt_prefix *prefix, const char *text, size_t length)
{
  size_t room = LLS_PREFIX_BYTES - prefix->length;
  if (length > room)
    length = room;
  if (length > 0)
    memcpy(prefix->text + prefix->length, text, length);
  prefix->length += length;
}

static void add_string(struct lls_prompt_prefix *prefix, const json_t *string)
{
  if (json_is_string(string))
    lls_prefix_add(prefix, json_string_value(string), json_string_length(string));
}

static bool is_full(const struct lls_prompt_prefix *prefix)
{
  return prefix->length == LLS_PREFIX_BYTES;
}

/* ---- prompts ----------------------------------------------------------------------- */

/* Adds a prompt of token ids, which may have texts among them. */
static void add_items(struct lls_prompt_prefix *prefix, const json_t *items)
{
  char number[24];
  for (size_t i = 0; i < json_array_size(items) && !is_full(prefix); i++) {
    const json_t *item = json_array_get(items, i);
    if (i > 0)
      lls_prefix_add(prefix, ",", 1);
    add_string(prefix, item);
    if (json_is_integer(item)) {
      int n =
          snprintf(number, sizeof number, "%lld", (long long)json_integer_value(item));
      lls_prefix_add(prefix, number, (size_t)n);
    }
  }
}

/* Returns the first prompt: an array without a number in it is a list of prompts. */
static const json_t *first_prompt(const json_t *prompt)
{
  for (size_t i = 0; i < json_array_size(prompt); i++)
    if (json_is_number(json_array_get(prompt, i)))
      return prompt;
  return json_is_array(prompt) ? json_array_get(prompt, 0) : prompt;
}

/* ---- messages ---------------------------------------------------------------------- */

static void add_content(struct lls_prompt_prefix *prefix, const json_t *content)
{
  add_string(prefix, content);
  for (size_t i = 0; i < json_array_size(content) && !is_full(prefix); i++) {
    if (i > 0)
      lls_prefix_add(prefix, "\n", 1);
    add_string(prefix, json_object_get(json_array_get(content, i), "text"));
  }
}

static void add_messages(struct lls_prompt_prefix *prefix, const json_t *messages)
{
  for (size_t i = 0; i < json_array_size(messages) && !is_full(prefix); i++) {
    const json_t *message = json_array_get(messages, i);
    const char *role = json_string_value(json_object_get(message, "role"));
    add_string(prefix, json_object_get(message, "role"));
    lls_prefix_add(prefix, "\n", 1);
    add_content(prefix, json_object_get(message, "content"));
    lls_prefix_add(prefix, "\n", 1);
    if (role != NULL && strcmp(role, "user") == 0)
      return;
  }
}

/* -------------------------------------------------------------------------------------
 */

void lls_prefix_add_body(struct lls_prompt_prefix *prefix, const json_t *body)
{
  const json_t *messages = json_object_get(body, "messages");
  if (messages != NULL) {
    add_messages(prefix, messages);
    return;
  }
  const json_t *prompt = first_prompt(json_object_get(body, "prompt"));
  add_string(prefix, prompt);
  add_items(prefix, prompt);
}

void lls_prefix_hash(const struct lls_prompt_prefix *prefix, char hex[LLS_PREFIX_HEX])
{
  struct lls_sha256 sha;
  char digits[LLS_SHA256_HEX];
  lls_sha256_begin(&sha);
  lls_sha256_add(&sha, prefix->text, prefix->length);
  lls_sha256_end(&sha, digits);
  memcpy(hex, digits, LLS_PREFIX_HEX - 1);
  hex[LLS_PREFIX_HEX - 1] = '\0';
}
