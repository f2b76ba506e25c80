/* SPDX-License-Identifier: Apache-2.0 */
/* A file of `label,length` lines, read into memory and sorted by label. */
#ifndef LENGTHS_H
#define LENGTHS_H

#include <llmserve/host.h>

struct length {
  char *label;
  uint32_t tokens;
  uint32_t line; /* line number in the file */
};

struct lengths {
  struct length *all; /* (n) */
  size_t n, capacity;
};

/* Returns 0; or -errno after host->fail with file:line and the expected format. There is
 * nothing to free after a failure. */
int lengths_read(struct lengths *, const char *path, const struct lls_host *);
void lengths_free(struct lengths *);
bool lengths_find(const struct lengths *, const char *label, uint32_t *tokens);

#endif
