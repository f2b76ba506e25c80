/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An INI file as a list of entries with their lines, by inih. Knows nothing of what the
 * keys mean.
 *
 * As inih reads it: `key = value`, comments from ';' or '#' at the start of a line and
 * from " ;" on, a UTF-8 byte order mark is skipped. Not as inih: an indented line is a
 * line like any other, never the continuation of the one above.
 */
#ifndef LLS_CONFIG_INI_H
#define LLS_CONFIG_INI_H

#include <limits.h>

#include "core/base/error.h"
#include "core/base/pack.h"

struct lls_ini_entry {
  char *section; /* "" before the first section */
  char *key;     /* NULL: the section's own line */
  char *value;   /* NULL with key */
  unsigned line; /* from 1 */
};

struct lls_ini {
  char *path;
  size_t n;
  struct lls_ini_entry *entries; /* (n) in file order */
};

/* Called for every line that can't be read. */
typedef void (*lls_ini_complain)(void *context, unsigned line, const char *sentence);

/* 0, -ENOMEM, or another negative errno if the file itself can't be read. Lines that are
 * complained of are left out. */
int lls_ini_read(const char *path, lls_ini_complain complain, void *context,
                 struct lls_ini *out, struct lls_error *err);
void lls_ini_free(struct lls_ini *);

/* For another process, ini_pack.c: -EPROTO if it is not what was packed, -ENOMEM. */
void lls_ini_pack(const struct lls_ini *, struct lls_pack *);
int lls_ini_unpack(struct lls_unpack *, struct lls_ini *out);

/* Lines of what is set from elsewhere: the command line, and requests. */
#define LLS_INI_SET     UINT_MAX
#define LLS_INI_CHANGED (UINT_MAX - 1)

/* As if the file said so, in one of these lines: before or instead of its own. 0 or
 * -ENOMEM. */
int lls_ini_set(struct lls_ini *, unsigned line, const char *section, const char *key,
                const char *value);

/* The entry of a key (NULL: of the section's first line); NULL if there is none. */
const struct lls_ini_entry *lls_ini_find(const struct lls_ini *, const char *section,
                                         const char *key);

#endif
