/* SPDX-License-Identifier: Apache-2.0 */
/* Reads label,length lines. Empty lines and lines that begin with # are left out; a label
 * may have commas in it, the length is what stands after the last one. */
#include "lengths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct lengths *l, const char *label, uint32_t tokens, uint32_t line)
{
  if (l->n == l->capacity) {
    size_t capacity = l->capacity > 0 ? 2 * l->capacity : 256;
    struct length *all = realloc(l->all, capacity * sizeof *all);
    if (all == NULL)
      return -ENOMEM;
    l->all = all;
    l->capacity = capacity;
  }
  char *copy = strdup(label);
  if (copy == NULL)
    return -ENOMEM;
  l->all[l->n++] = (struct length){copy, tokens, line};
  return 0;
}

static int read_line(struct lengths *l, char *text, const char *path, uint32_t line,
                     const struct lls_host *host)
{
  text[strcspn(text, "\r\n")] = '\0';
  if (*text == '\0' || *text == '#')
    return 0;
  char *comma = strrchr(text, ','), *end = NULL;
  unsigned long tokens = 0;
  errno = 0;
  if (comma != NULL && comma[1] >= '0' && comma[1] <= '9')
    tokens = strtoul(comma + 1, &end, 10);
  if (end == NULL || *end != '\0' || errno != 0 || tokens == 0 || tokens > UINT32_MAX ||
      comma == text)
    return host->fail(
        host->context, -EINVAL,
        "%s:%u: expected label,length with a length from 1 up, found \"%s\"", path, line,
        text);
  *comma = '\0';
  return add(l, text, (uint32_t)tokens, line);
}

static int by_label(const void *a, const void *b)
{
  return strcmp(((const struct length *)a)->label, ((const struct length *)b)->label);
}

static int sort(struct lengths *l, const char *path, const struct lls_host *host)
{
  if (l->n > 0)
    qsort(l->all, l->n, sizeof *l->all, by_label);
  for (size_t i = 1; i < l->n; i++) {
    const struct length *a = &l->all[i - 1], *b = &l->all[i];
    if (strcmp(a->label, b->label) == 0)
      return host->fail(host->context, -EINVAL,
                        "%s:%u: label \"%s\" stands in line %u too", path,
                        a->line > b->line ? a->line : b->line, a->label,
                        a->line < b->line ? a->line : b->line);
  }
  return 0;
}

int lengths_read(struct lengths *l, const char *path, const struct lls_host *host)
{
  *l = (struct lengths){0};
  FILE *file = fopen(path, "r");
  if (file == NULL)
    return host->fail(host->context, -errno, "file = %s: %s", path, strerror(errno));
  char *text = NULL;
  size_t size = 0;
  int rc = 0;
  for (uint32_t line = 1; rc == 0 && getline(&text, &size, file) >= 0; line++)
    rc = read_line(l, text, path, line, host);
  if (rc == 0 && ferror(file))
    rc = host->fail(host->context, -EIO, "%s: read error", path);
  free(text);
  fclose(file);
  if (rc == 0)
    rc = sort(l, path, host);
  if (rc < 0)
    lengths_free(l);
  return rc;
}

void lengths_free(struct lengths *l)
{
  for (size_t i = 0; i < l->n; i++)
    free(l->all[i].label);
  free(l->all);
  *l = (struct lengths){0};
}

bool lengths_find(const struct lengths *l, const char *label, uint32_t *tokens)
{
  if (l->n == 0 || label == NULL)
    return false;
  struct length key = {.label = (char *)label};
  const struct length *found = bsearch(&key, l->all, l->n, sizeof *l->all, by_label);
  if (found != NULL)
    *tokens = found->tokens;
  return found != NULL;
}
