/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares our JSON with Jansson's. For everything that Jansson reads: our scanner ends
 * a string, array or object at the same place; a template's tojson, which has its own
 * writer, gives the same value when Jansson reads it again; and lls_json_text writes
 * the same as json_dumps.
 */
#include "core/base/json_memory.h"
#include "text/template/template.h"
#include "text/tools/json_scan.h"
#include "t/fuzz/fuzz.h"

/* deepest value given to templates, which have their own limit */
#define DEEPEST 100

static unsigned depth_of(const json_t *value)
{
  unsigned most = 0;
  size_t i;
  const char *key;
  json_t *item;
  json_array_foreach((json_t *)value, i, item)
  {
    unsigned depth = 1 + depth_of(item);
    most = depth > most ? depth : most;
  }
  json_object_foreach((json_t *)value, key, item)
  {
    unsigned depth = 1 + depth_of(item);
    most = depth > most ? depth : most;
  }
  return most;
}

/* json_scan.h leaves numbers and words to the code that reads the value. Jansson 2.14
 * ignores a NUL after a number. */
static void check_scan(const char *text, size_t n, size_t end)
{
  struct lls_json_scan scan = {0};
  enum lls_json_scan_result result = LLS_JSON_SCAN_MORE;
  size_t at = 0;
  while (at < n && result == LLS_JSON_SCAN_MORE)
    result = lls_json_scan(&scan, text[at++]);
  assert(result == LLS_JSON_SCAN_DONE && at == end);
}

static void check_text(const json_t *value)
{
  const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
  char *ours = lls_json_text(value, flags), *theirs = json_dumps(value, flags);
  assert(ours != NULL && theirs != NULL && strcmp(ours, theirs) == 0);
  free(ours);
  free(theirs);
}

static void check_tojson(json_t *value)
{
  static struct lls_chat_template *compiled;
  static json_t *messages;
  struct lls_error err = {0};
  char *text = NULL;
  size_t length;
  if (compiled == NULL) {
    messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "");
    assert(lls_chat_template_compile("{{ v | tojson }}", "", "", &compiled, &err) == 0);
  }
  json_t *variables = json_pack("{s:O}", "v", value);
  assert(lls_chat_template_render(compiled, messages, variables, true, 0, &text, &length,
                                  &err) == 0);
  json_t *again = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  assert(again != NULL && json_equal(again, value));
  json_decref(again);
  json_decref(variables);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *text = (const char *)data;
  json_error_t why;
  json_t *value = json_loadb(
      text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, &why);
  if (value == NULL)
    return 0;
  unsigned depth = depth_of(value);
  bool delimited = json_is_string(value) || json_is_array(value) || json_is_object(value);
  if (delimited && depth < LLS_JSON_SCAN_DEPTH && memchr(text, '\0', size) == NULL)
    check_scan(text, size, (size_t)why.position);
  check_text(value);
  if (depth < DEEPEST)
    check_tojson(value);
  json_decref(value);
  return 0;
}
