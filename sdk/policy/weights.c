/* SPDX-License-Identifier: Apache-2.0 */
/* See weights.h. */
#include <llmserve/policy/weights.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 0.001
#define MOST  1000.0

struct weight {
  const char *name, *number;
  size_t length; /* bytes of the name */
  double value;  /* 0: the text has no number */
};

static const char *after_blanks(const char *at)
{
  return at + strspn(at, " \t");
}

/* Parses the first weight of the text, which is not empty. Returns the text after its
 * comma, or the end. */
static const char *next(const char *text, struct weight *out)
{
  const char *end = text + strcspn(text, ","), *colon = end;
  while (colon > text && *colon != ':')
    colon--;
  const char *behind = colon;
  while (behind > text && (behind[-1] == ' ' || behind[-1] == '\t'))
    behind--;
  char *read = NULL;
  *out = (struct weight){.name = text, .number = colon + (colon < end)};
  out->length = (size_t)(behind - text);
  double value = colon > text ? strtod(out->number, &read) : 0;
  if (read != NULL && read > out->number && after_blanks(read) == end)
    out->value = value;
  return *end == ',' ? after_blanks(end + 1) : end;
}

static bool is_of(const struct weight *w, const char *name, size_t length)
{
  return w->length == length && memcmp(w->name, name, length) == 0;
}

static bool is_twice(const char *rest, const struct weight *w)
{
  for (struct weight other; *rest != '\0';) {
    rest = next(rest, &other);
    if (is_of(&other, w->name, w->length))
      return true;
  }
  return false;
}

int lls_pol_weights_check(const struct lls_host *host, const char *parameter,
                          const char *weights)
{
  const char *at = after_blanks(weights);
  for (struct weight w; *at != '\0';) {
    const char *entry = at;
    at = next(at, &w);
    if (w.length == 0 || !(w.value >= LEAST && w.value <= MOST))
      return host->fail(host->context, -EINVAL,
                        "%s: \"%.*s\" is no name with a weight from %g to %g: "
                        "name them as in alice:3, bob:0.5",
                        parameter, (int)strcspn(entry, ","), entry, LEAST, MOST);
    if (is_twice(at, &w))
      return host->fail(host->context, -EINVAL, "%s: \"%.*s\" has two weights", parameter,
                        (int)w.length, w.name);
  }
  return 0;
}

double lls_pol_weight(const char *weights, const char *name)
{
  size_t length = strlen(name);
  const char *at = after_blanks(weights);
  for (struct weight w; *at != '\0';) {
    at = next(at, &w);
    if (is_of(&w, name, length))
      return w.value;
  }
  return 1;
}
