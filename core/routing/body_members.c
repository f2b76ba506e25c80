/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over the bytes of an object, counting brackets outside of strings; see
 * body_members.h. */
#include "core/routing/body_members.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_parse.h"

struct walk {
  const char *at, *end;
};

static void skip_blanks(struct walk *w)
{
  while (w->at < w->end && strchr(" \t\r\n", *w->at) != NULL && *w->at != '\0')
    w->at++;
}

/* Moves from a string's first quotation mark behind its last one. */
static bool skip_string(struct walk *w)
{
  for (w->at++; w->at < w->end; w->at++) {
    if (*w->at == '\\')
      w->at++;
    else if (*w->at == '"') {
      w->at++;
      return true;
    }
  }
  w->at = w->end;
  return false;
}

/* Moves behind a value: to the comma or bracket that follows it. */
static void skip_value(struct walk *w)
{
  for (size_t depth = 0; w->at < w->end;) {
    char c = *w->at;
    if (c == '"') {
      skip_string(w);
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']'))
      return;
    depth += c == '{' || c == '[';
    depth -= c == '}' || c == ']';
    w->at++;
  }
}

static void take(struct lls_body_value *value, const char *at, size_t length)
{
  char text[LLS_BODY_VALUE_MAX];
  value->found = true;
  value->is_true = value->is_false = false;
  value->text[0] = '\0';
  while (length > 0 && strchr(" \t\r\n", at[length - 1]) != NULL)
    length--;
  if (length == 0 || length >= sizeof text)
    return;
  json_t *json = lls_json_parse(at, length, JSON_DECODE_ANY, NULL);
  value->is_true = json_is_true(json);
  value->is_false = json_is_false(json);
  if (json_is_string(json))
    snprintf(value->text, sizeof value->text, "%s", json_string_value(json));
  json_decref(json);
}

/* Returns the wanted value of this name, which stands with its quotation marks. */
static struct lls_body_value *find(struct lls_body_value *wanted, const char *name,
                                   size_t length)
{
  for (; wanted->name[0] != '\0'; wanted++)
    if (length == strlen(wanted->name) + 2 &&
        strncmp(name + 1, wanted->name, length - 2) == 0)
      return wanted;
  return NULL;
}

void lls_body_find(const char *text, size_t length, struct lls_body_value *wanted)
{
  struct walk w = {text, text + length};
  skip_blanks(&w);
  if (w.at == w.end || *w.at++ != '{')
    return;
  while (w.at < w.end) {
    skip_blanks(&w);
    const char *name = w.at;
    if (w.at == w.end || *w.at != '"' || !skip_string(&w))
      return;
    struct lls_body_value *value = find(wanted, name, (size_t)(w.at - name));
    skip_blanks(&w);
    if (w.at == w.end || *w.at++ != ':')
      return;
    skip_blanks(&w);
    const char *begin = w.at;
    skip_value(&w);
    if (value != NULL)
      take(value, begin, (size_t)(w.at - begin));
    if (w.at == w.end || *w.at++ != ',')
      return;
  }
}
