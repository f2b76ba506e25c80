/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared object opened from a private copy in memory. The dynamic linker takes a file
 * it has open already, by name or by inode, for the same library; a copy per open has
 * both to itself, so a file rebuilt in place is loaded as what it is now, and writing
 * over it can't touch code that runs.
 *
 * A file that is not whole - a compiler, a linker or cp is still at work on it - is
 * refused: the dynamic linker would believe its headers and die.
 */
#ifndef LLS_PLUGIN_IMAGE_H
#define LLS_PLUGIN_IMAGE_H

#include <stdbool.h>

#include "core/base/error.h"

struct lls_image {
  void *handle; /* of dlopen */
  int fd;       /* the copy; open as long, so that its name /proc/PID/fd/N stays taken */
};

enum lls_image_care {
  LLS_IMAGE_CHECKED, /* what its headers say of it (elf.h), and that it stays as it is */
  LLS_IMAGE_TRIED,   /* and a process of its own has opened it (trial.h) */
};

/* The copy must have this SHA-256 in hexadecimal; "": any. */
int lls_image_open(const char *path, enum lls_image_care, const char *sha256,
                   struct lls_image *out, struct lls_error *err);
/* Were both made of the same bytes? */
bool lls_image_equal(const struct lls_image *, const struct lls_image *);
void lls_image_close(struct lls_image *);

#endif
