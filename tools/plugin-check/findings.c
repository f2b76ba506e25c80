/* SPDX-License-Identifier: Apache-2.0 */
/* Writes findings into a pipe; see findings.h. */
#include "tools/plugin-check/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes one line to the pipe: its kind, and the text without line ends. */
static void say(struct findings *f, char what, const char *format, va_list args)
{
  char line[1024] = {what};
  vsnprintf(line + 1, sizeof line - 2, format, args);
  for (char *c = line; *c != '\0'; c++)
    if (*c == '\n')
      *c = ' ';
  strcat(line, "\n");
  (void)!write(f->fd, line, strlen(line));
}

void found(struct findings *f, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  if (f->n++ < FINDINGS_MAX)
    say(f, 'F', format, args);
  va_end(args);
}

void noted(struct findings *f, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  say(f, 'N', format, args);
  va_end(args);
}

void skipped(struct findings *f, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  say(f, 'S', format, args);
  va_end(args);
}

void identified(struct findings *f, uint32_t kind, const char *id, const char *version)
{
  dprintf(f->fd, "I%u %s %s\n", kind, id, version);
}

void needs_roles(struct findings *f)
{
  dprintf(f->fd, "R\n");
}
