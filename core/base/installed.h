/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files of this installation. Configure sets their folders. A program in the
 * bin of another prefix (make install prefix=X, an unpacked folder) uses the files below
 * that prefix.
 */
#ifndef LLS_BASE_INSTALLED_H
#define LLS_BASE_INSTALLED_H

#include <limits.h>

struct lls_installed {
  char path[PATH_MAX];
};

/* Returns where the running program finds `configured` (LLS_PLUGIN_DIR, or a file in it):
 * below the program's own prefix if it exists there, else unchanged. */
struct lls_installed lls_installed(const char *configured);

#endif
