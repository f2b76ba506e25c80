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

/* With a sanitizer, which takes some times as long, a test that draws lots or goes round
 * many of a kind is content with a part: TAP_LOTS of them, or each TAP_STEPth. */
#ifdef __has_feature
#define TAP_CLANG_HAS(feature) __has_feature(feature)
#else
#define TAP_CLANG_HAS(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                     \
    TAP_CLANG_HAS(address_sanitizer) || TAP_CLANG_HAS(thread_sanitizer)
#define TAP_SANITIZED 1
#else
#define TAP_SANITIZED 0
#endif
#define TAP_LOTS(n) (TAP_SANITIZED ? ((n) + 3) / 4 : (n))
#define TAP_STEP(n) (TAP_SANITIZED ? (n) : 1)

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
