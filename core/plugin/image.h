/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared object opened from a private copy in memory. The dynamic linker considers a
 * file with the name or inode of an open library to be that library. A copy for each
 * open has a name and inode of its own, so a file that was rebuilt in place is loaded
 * with its new contents, and overwriting it cannot affect running code.
 *
 * An incomplete file - a compiler, a linker or cp is still writing it - is refused: the
 * dynamic linker would trust its headers and crash.
 */
#ifndef LLS_PLUGIN_IMAGE_H
#define LLS_PLUGIN_IMAGE_H

#include <stdbool.h>

#include "core/base/error.h"

struct lls_image {
  void *handle; /* handle of dlopen */
  int fd;       /* the copy; stays open, so that no other copy gets the name
                 * /proc/PID/fd/N */
};

enum lls_image_care {
  LLS_IMAGE_CHECKED, /* check the file's headers (elf.h), and that it does not change */
  LLS_IMAGE_TRIED,   /* CHECKED, and let another process open it first (trial.h) */
};

/* Opens a copy, which must have this SHA-256 in hexadecimal; "": any. */
int lls_image_open(const char *path, enum lls_image_care, const char *sha256,
                   struct lls_image *out, struct lls_error *err);
/* Returns true if both were made from the same bytes. */
bool lls_image_equal(const struct lls_image *, const struct lls_image *);
void lls_image_close(struct lls_image *);

#endif
