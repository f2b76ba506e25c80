/* SPDX-License-Identifier: Apache-2.0 */
/* Every cmocka test starts with this; output is TAP (see t/prove). */
#ifndef LLS_TAP_H
#define LLS_TAP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

/* Path of a file of the source tree, whatever the build directory; static storage. */
static inline const char *source_path(const char *relative)
{
  static char path[4096];
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, sizeof path, "%s/%s", root != NULL ? root : ".", relative);
  return path;
}

/* Ends a test that cannot run here; t/run passes the reason on to the list of what was
 * skipped. */
__attribute__((format(printf, 1, 2))) static inline void skip_because(const char *format,
                                                                      ...)
{
  va_list args;
  print_message("# skipped: ");
  va_start(args, format);
  vprint_message(format, args);
  va_end(args);
  print_message("\n");
  skip();
}

/* By lines, so that what cmocka writes to stderr keeps its place, and a crash loses
 * nothing. */
__attribute__((constructor)) static void write_by_lines(void)
{
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

#endif
