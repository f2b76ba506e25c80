/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that enough files may be opened. This is tried before the first plugin is
 * opened, since libuv aborts if it can't open a file, and the plugin loader would only
 * report too many open files.
 */
#include "core/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The event loop, signals, the log, listeners, and files that are read in between. */
#define DESCRIPTORS 32

/* Opens files for a try, which shows whether the limit is too low, and whether most
 * descriptors were inherited from the parent process. */
int lls_serve_check_descriptors(struct lls_error *err)
{
  int opened[DESCRIPTORS];
  int n = 0;
  while (n < DESCRIPTORS && (opened[n] = fcntl(2, F_DUPFD_CLOEXEC, 0)) >= 0)
    n++;
  int rc = n < DESCRIPTORS ? -errno : 0;
  for (int i = 0; i < n; i++)
    close(opened[i]);
  if (rc != -EMFILE)
    return 0;
  return lls_fail(err, rc,
                  "only %d more files may be open, %d are needed and one for each "
                  "connection: raise the limit (ulimit -n, or LimitNOFILE= of the unit)",
                  n, DESCRIPTORS);
}
