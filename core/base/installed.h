/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files of this installation. Their folders are named at configure time; a
 * program that stands in the bin of another prefix (make install prefix=X, an unpacked
 * folder) finds its own there.
 */
#ifndef LLS_BASE_INSTALLED_H
#define LLS_BASE_INSTALLED_H

#include <limits.h>

struct lls_installed {
  char path[PATH_MAX];
};

/* `configured` (such as LLS_PLUGIN_DIR, or a file in it) as the program that runs has it:
 * below its own prefix if it is there, else as it was configured. */
struct lls_installed lls_installed(const char *configured);

#endif
