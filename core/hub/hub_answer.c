/* SPDX-License-Identifier: Apache-2.0 */
/* See hub_answer.h. The hub answers 401, not 404, for a model that does not exist, so
 * that it does not tell which private ones there are. */
#include "core/hub/hub_answer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Returns the value of a header line if it is the header `name`; its length is in *n. */
static const char *value_of(const char *line, size_t length, const char *name, size_t *n)
{
  size_t own = strlen(name);
  if (length <= own || strncasecmp(line, name, own) != 0 || line[own] != ':')
    return NULL;
  const char *from = line + own + 1, *end = line + length;
  while (from < end && isspace((unsigned char)*from))
    from++;
  while (end > from && isspace((unsigned char)end[-1]))
    end--;
  *n = (size_t)(end - from);
  return from;
}

/* Copies what can be shown on a terminal. */
static void keep(const char *from, size_t n, char *out, size_t size)
{
  size_t length = n < size - 1 ? n : size - 1;
  for (size_t i = 0; i < length; i++)
    out[i] = isprint((unsigned char)from[i]) ? from[i] : '?';
  out[length] = '\0';
}

void lls_hub_answer_header(struct lls_hub_answer *a, const char *line, size_t length)
{
  char number[32];
  const char *value;
  size_t n;
  if (length > 5 && strncmp(line, "HTTP/", 5) == 0)
    *a = (struct lls_hub_answer){0};
  else if ((value = value_of(line, length, "x-error-code", &n)) != NULL)
    keep(value, n, a->code, sizeof a->code);
  else if ((value = value_of(line, length, "x-error-message", &n)) != NULL)
    keep(value, n, a->message, sizeof a->message);
  else if ((value = value_of(line, length, "content-range", &n)) != NULL && n > 6) {
    keep(value + 6, n - 6, number, sizeof number); /* after "bytes " */
    a->range_from = strtoull(number, NULL, 10);
  }
}

bool lls_hub_may_retry(const struct lls_hub_answer *a)
{
  return a->status == 429 || a->status == 408 || a->status >= 500;
}

static int refuse_access(const struct lls_hub_answer *a, const struct lls_hub_places *p,
                         const struct lls_hub_name *name, struct lls_error *err)
{
  bool gated = strcmp(a->code, "GatedRepo") == 0, token = p->token[0] != '\0';
  if (gated && token)
    return lls_fail(err, -EACCES,
                    "it is gated: with the account of the token (HF_TOKEN), accept its "
                    "conditions at %s/%s/%s; some owners then have to agree",
                    p->endpoint, name->owner, name->name);
  if (gated)
    return lls_fail(err, -EACCES,
                    "it is gated: accept its conditions at %s/%s/%s, and set HF_TOKEN to "
                    "a token of the same account (or run hf auth login)",
                    p->endpoint, name->owner, name->name);
  if (!token)
    return lls_fail(err, -EACCES,
                    "%s knows no such model, or it is a private one: check the name; for "
                    "a private one set HF_TOKEN to a token that may read it (or run hf "
                    "auth login)",
                    p->endpoint);
  if (a->status == 401)
    return lls_fail(err, -EACCES,
                    "%s does not accept the token (HF_TOKEN, or the file of hf auth "
                    "login), or knows no such model",
                    p->endpoint);
  return lls_fail(err, -EACCES, "the token (HF_TOKEN) may not read it%s%s",
                  a->message[0] != '\0' ? ": " : "", a->message);
}

int lls_hub_refusal(const struct lls_hub_answer *a, const struct lls_hub_places *p,
                    const struct lls_hub_name *name, const char *what,
                    struct lls_error *err)
{
  if (a->status == 401 || a->status == 403)
    return refuse_access(a, p, name, err);
  if (a->status == 404 && what != NULL)
    return lls_fail(err, -ENOENT, "%s does not have its file %s", p->endpoint, what);
  if (a->status == 404)
    return lls_fail(err, -ENOENT, "%s knows no such model: check the name", p->endpoint);
  if (a->status == 429)
    return lls_fail(err, -EAGAIN,
                    "%s answers 429, too many requests, and asks to wait %lld s: try "
                    "later%s",
                    p->endpoint, (long long)a->retry_after_s,
                    p->token[0] != '\0' ? "" : ", or with HF_TOKEN, which allows more");
  return lls_fail(err, -EIO, "%s answers with status %ld%s%s", p->endpoint, a->status,
                  a->message[0] != '\0' ? ": " : "", a->message);
}
