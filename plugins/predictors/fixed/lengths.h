/* SPDX-License-Identifier: Apache-2.0 */
/* A file of label,length lines in memory, sorted by label. */
#ifndef LENGTHS_H
#define LENGTHS_H

#include <llmserve/host.h>

struct length {
  char *label;
  uint32_t tokens;
  uint32_t line; /* where it stands */
};

struct lengths {
  struct length *all; /* (n) */
  size_t n, capacity;
};

/* -errno, with file:line and what was expected through host->fail; nothing to
 * free then. */
int lengths_read(struct lengths *, const char *path, const struct lls_host *);
void lengths_free(struct lengths *);
bool lengths_find(const struct lengths *, const char *label, uint32_t *tokens);

#endif
