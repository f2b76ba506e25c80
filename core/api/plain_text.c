/* SPDX-License-Identifier: Apache-2.0 */
/* Puts barriers into names of special tokens in clients' texts; see plain_text.h. */
#include "core/api/plain_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"
#include "text/base/utf8.h"

static const char barrier[] = "\xef\xb7\x90";
#define BARRIER_BYTES (sizeof barrier - 1)

/* True if the chat template's source has this token's name. White space and single
 * characters do not count: a template prints them as text, not as marks. */
static bool is_named(const struct lls_api_config *config, const char *name, size_t n)
{
  const struct lls_chat_template *chat_template = config->chat_template;
  const char *source =
      chat_template != NULL ? lls_chat_template_source(chat_template, true) : "";
  size_t space = 0;
  while (space < n && isspace((unsigned char)name[space]))
    space++;
  return n > 1 && space < n && memmem(source, strlen(source), name, n) != NULL;
}

/* Appends the text with barriers. Returns true if it needed any. */
static bool guard_text(const struct lls_api_config *config, const char *text,
                       size_t length, struct lls_text *out)
{
  size_t kept = 0;
  for (size_t at = 0; at < length;) {
    size_t size, first = lls_utf8_length(text + at);
    int32_t id = lls_tokenizer_added_at(config->tokenizer, text + at, length - at, &size);
    bool special = id >= 0 && size > first &&
                   (lls_tokenizer_is_special(config->tokenizer, id) ||
                    is_named(config, text + at, size));
    at += first < length - at ? first : length - at;
    if (!special)
      continue;
    lls_text_append(out, text + kept, at - kept);
    lls_text_append(out, barrier, BARRIER_BYTES);
    kept = at;
  }
  bool any = kept > 0;
  lls_text_append(out, text + kept, length - kept);
  return any;
}

static json_t *guard_string(const struct lls_api_config *config, json_t *value)
{
  struct lls_text text = {0};
  bool any =
      guard_text(config, json_string_value(value), json_string_length(value), &text);
  json_t *guarded = text.failed ? NULL
                    : any       ? json_stringn(text.data, text.length)
                                : json_incref(value);
  lls_text_free(&text);
  return guarded;
}

json_t *lls_plain_guard(const struct lls_api_config *config, json_t *value)
{
  size_t i;
  const char *key;
  json_t *item, *copy;
  if (!config->limits.escape_special_tokens)
    return json_incref(value);
  if (json_is_string(value))
    return guard_string(config, value);
  if (json_is_array(value)) {
    copy = json_array();
    json_array_foreach(value, i, item)
    {
      json_array_append_new(copy, lls_plain_guard(config, item));
    }
    return copy;
  }
  if (!json_is_object(value))
    return json_incref(value);
  copy = json_object();
  json_object_foreach(value, key, item)
  {
    json_object_set_new(copy, key, lls_plain_guard(config, item));
  }
  return copy;
}

/* ---- the rendered prompt ---------------------------------------------------------- */

static int append(int32_t **ids, size_t *count, const int32_t *more, size_t n)
{
  int32_t *grown = realloc(*ids, (*count + n + 1) * sizeof *grown);
  if (grown == NULL)
    return -ENOMEM;
  if (n > 0)
    memcpy(grown + *count, more, n * sizeof *more);
  *ids = grown;
  *count += n;
  return 0;
}

int lls_plain_encode(const struct lls_tokenizer *tokenizer, const char *text,
                     size_t length, bool add_special, int32_t **ids, size_t *count,
                     struct lls_error *err)
{
  const char *end = text + length;
  if (memmem(text, length, barrier, BARRIER_BYTES) == NULL)
    return lls_tokenizer_encode(tokenizer, text, length, add_special, ids, count, err);
  int status = 0;
  *ids = NULL;
  *count = 0;
  for (const char *part = text, *cut; status == 0 && part != NULL; part = cut) {
    int32_t *more = NULL;
    size_t n = 0;
    cut = memmem(part, (size_t)(end - part), barrier, BARRIER_BYTES);
    status = lls_tokenizer_encode(tokenizer, part, (size_t)((cut ? cut : end) - part),
                                  add_special && part == text, &more, &n, err);
    if (status == 0 && append(ids, count, more, n) != 0)
      status = lls_fail(err, -ENOMEM, "no memory for the tokens");
    free(more);
    if (cut != NULL)
      cut += BARRIER_BYTES;
  }
  if (status == 0)
    return 0;
  free(*ids);
  *ids = NULL;
  return status;
}

size_t lls_plain_strip(char *text, size_t length)
{
  char *at = text;
  while ((at = memmem(at, length - (size_t)(at - text), barrier, BARRIER_BYTES)) !=
         NULL) {
    length -= BARRIER_BYTES;
    memmove(at, at + BARRIER_BYTES, length - (size_t)(at - text) + 1);
  }
  return length;
}
