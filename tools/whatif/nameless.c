/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory; see nameless.h. */
#include "tools/whatif/nameless.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int nameless_create(struct nameless *n, struct lls_error *err)
{
  n->fd = memfd_create("llmserve-whatif", 0); /* stays open across exec */
  if (n->fd < 0)
    return lls_fail(err, -errno, "no memory for a file: %s", strerror(errno));
  snprintf(n->path, sizeof n->path, "/proc/self/fd/%d", n->fd);
  return 0;
}

void nameless_close(struct nameless *n)
{
  if (n->fd >= 0)
    close(n->fd);
  n->fd = -1;
}
