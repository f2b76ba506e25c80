/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a JSON text that is cut off, as a call's arguments are at the end of max_tokens.
 * Clients that read the stream complete such a text themselves; a whole answer needs a
 * value. The text is cut after its last complete value, and the brackets that are open
 * there are closed.
 */
#include <string.h>

#include "core/api/anthropic/messages.h"
#include "core/base/json_cost.h"
#include "core/base/text.h"

#define MAX_DEPTH 256

struct scan {
  const char *text;
  size_t length;
  char open[MAX_DEPTH]; /* (depth) the brackets that close the open ones */
  size_t depth;
  bool is_value; /* a string here is the value of a member, not its name */
  /* the text up to the last complete value, and the brackets open there */
  size_t whole, whole_depth;
  char whole_open[MAX_DEPTH];
};

static void mark(struct scan *scan, size_t whole)
{
  scan->whole = whole;
  scan->whole_depth = scan->depth;
  memcpy(scan->whole_open, scan->open, scan->depth);
}

/* Returns the index of the string's last quote; `length` if it is cut off. */
static size_t end_of_string(const struct scan *scan, size_t at)
{
  for (at++; at < scan->length && scan->text[at] != '"'; at++)
    at += scan->text[at] == '\\';
  return at < scan->length ? at : scan->length;
}

static void open_bracket(struct scan *scan, char closing)
{
  scan->open[scan->depth++] = closing;
  scan->is_value = closing == ']';
}

/* Handles the sign at `at`; returns the index of its last character. */
static size_t step(struct scan *scan, size_t at)
{
  char c = scan->text[at];
  size_t last = c == '"' ? end_of_string(scan, at) : at;
  if (c == '{' || c == '[')
    open_bracket(scan, c == '{' ? '}' : ']');
  else if ((c == '}' || c == ']') && scan->depth > 0)
    scan->depth--;
  else if (c == ':')
    scan->is_value = true;
  else if (c == ',')
    scan->is_value = scan->depth > 0 && scan->open[scan->depth - 1] == ']';
  if (c == ',')
    mark(scan, at);
  else if (strchr("{[}]", c) != NULL ||
           (c == '"' && scan->is_value && last < scan->length))
    mark(scan, last + 1);
  return last;
}

static json_t *load(const char *text, size_t length)
{
  json_t *value = lls_json_load(text, length, JSON_ALLOW_NUL, NULL);
  if (value == NULL) /* integers that are too large for 64 bits */
    value = lls_json_load(text, length, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
  return value;
}

json_t *lls_partial_json(const char *text, size_t length)
{
  struct scan scan = {.text = text, .length = length};
  struct lls_text closed = {0};
  json_t *value = load(text, length);
  if (value != NULL)
    return value;
  for (size_t at = 0; at < length && scan.depth < MAX_DEPTH; at++)
    at = step(&scan, at);
  lls_text_append(&closed, text, scan.whole);
  while (scan.whole_depth > 0)
    lls_text_append(&closed, &scan.whole_open[--scan.whole_depth], 1);
  if (!closed.failed && closed.length > 0)
    value = load(closed.data, closed.length);
  lls_text_free(&closed);
  return value != NULL ? value : json_object();
}
