/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An INI file as a list of entries with their line numbers, read by inih. The meaning
 * of keys is the caller's.
 *
 * The syntax is inih's: `key = value`; comments begin with ';' or '#' at the start of a
 * line, or with " ;"; a UTF-8 byte order mark is skipped. Unlike in inih, an indented
 * line is an ordinary line, never the continuation of the previous one.
 */
#ifndef LLS_CONFIG_INI_H
#define LLS_CONFIG_INI_H

#include <limits.h>

#include "core/base/error.h"
#include "core/base/pack.h"

struct lls_ini_entry {
  char *section; /* "" before the first section */
  char *key;     /* NULL: this entry is the section's own line */
  char *value;   /* NULL if key is NULL */
  unsigned line; /* from 1 */
};

struct lls_ini {
  char *path;
  size_t n;
  struct lls_ini_entry *entries; /* (n) in file order */
};

/* Called for every line that can't be read. */
typedef void (*lls_ini_complain)(void *context, unsigned line, const char *sentence);

/* Reads a file. Returns 0, -ENOMEM, or another negative errno if the file can't be
 * read. Lines that were complained about are left out. */
int lls_ini_read(const char *path, lls_ini_complain complain, void *context,
                 struct lls_ini *out, struct lls_error *err);
void lls_ini_free(struct lls_ini *);

/* Pack and unpack an INI for another process (ini_pack.c). Unpacking returns -EPROTO if
 * the data was not packed by this function, or -ENOMEM. */
void lls_ini_pack(const struct lls_ini *, struct lls_pack *);
int lls_ini_unpack(struct lls_unpack *, struct lls_ini *out);

/* Writes a file that reads as this one, each entry in its line, without entries of the
 * command line and of requests (ini_write.c). Returns 0 or a negative errno. */
int lls_ini_write(const struct lls_ini *, const char *path);

/* Line numbers of entries that are not from the file: of the command line, and of
 * requests. */
#define LLS_INI_SET     UINT_MAX
#define LLS_INI_CHANGED (UINT_MAX - 1)

/* Sets a key as if in the file, with one of these line numbers; it replaces the file's
 * own entry. Returns 0 or -ENOMEM. */
int lls_ini_set(struct lls_ini *, unsigned line, const char *section, const char *key,
                const char *value);

/* Removes entry i; later ones move up. */
void lls_ini_remove(struct lls_ini *, size_t i);

/* Returns the entry of a key, or if key is NULL the section's first line; NULL if there
 * is none. */
const struct lls_ini_entry *lls_ini_find(const struct lls_ini *, const char *section,
                                         const char *key);

#endif
