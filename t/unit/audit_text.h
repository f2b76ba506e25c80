/* SPDX-License-Identifier: Apache-2.0 */
/* An audit's report as one text, for tests that compare states (policy/report.h): what
 * its host and its sink call. */
#ifndef LLS_T_AUDIT_TEXT_H
#define LLS_T_AUDIT_TEXT_H

#include "t/tap.h"

#include <stdarg.h>
#include <string.h>

/* A host's `fail`: says what is wrong. */
__attribute__((format(printf, 3, 4))) static inline int
audit_text_fail(void *context, int rc, const char *format, ...)
{
  (void)context;
  print_message("# ");
  va_list args;
  va_start(args, format);
  vprint_message(format, args);
  va_end(args);
  print_message("\n");
  return rc;
}

/* A sink's `text`: adds a line to the text that context points to, NULL or allocated. */
static inline void audit_text_add(void *context, const char *line)
{
  char **text = context;
  size_t n = *text != NULL ? strlen(*text) : 0, more = strlen(line);
  *text = realloc(*text, n + more + 2);
  memcpy(*text + n, line, more);
  memcpy(*text + n + more, "\n", 2);
}

#endif
