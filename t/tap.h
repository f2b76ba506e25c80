/* SPDX-License-Identifier: Apache-2.0 */
/* Included first by every cmocka test; output is TAP (see t/prove). */
#ifndef LLS_TAP_H
#define LLS_TAP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

/* Sanitizers slow tests down several times. A test that draws random cases or repeats
 * one many times then runs a part only: TAP_LOTS of them, or each TAP_STEPth. */
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

/* The path of a file in the source tree, whatever the build directory; static
 * storage. */
static inline const char *source_path(const char *relative)
{
  static char path[4096];
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, sizeof path, "%s/%s", root != NULL ? root : ".", relative);
  return path;
}

/* Ends a test that cannot run here; t/run adds the reason to its list of skipped
 * tests. */
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

/* Line-buffers the output, so that cmocka's stderr output stays in order and a crash
 * loses nothing. */
__attribute__((constructor)) static void write_by_lines(void)
{
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

#endif
