/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The findings of a check. A check runs in a separate process, since a plugin may crash
 * or hang. It writes its findings into a pipe to the parent, one a line, and its
 * position to a page that both share.
 */
#ifndef CHECK_FINDINGS_H
#define CHECK_FINDINGS_H

#include <stdint.h>

#define WHERE_MAX 128
/* findings of one check that are kept; further ones are only counted */
#define FINDINGS_MAX 6

struct findings {
  int fd;      /* write end of the pipe */
  char *where; /* (WHERE_MAX) shared: the plugin's running callback; "": none */
  uint32_t n;  /* number of findings */
};

/* Reports something wrong: a sentence about the plugin. */
void found(struct findings *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reports something worth knowing that is not wrong. */
void noted(struct findings *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reports that the check does not apply. */
void skipped(struct findings *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reports that the plugin is a scheduler which needs at least two instances with
 * roles. */
void needs_roles(struct findings *);
/* Reports the plugin's identity: kind, id and version. */
void identified(struct findings *, uint32_t kind, const char *id, const char *version);

#endif
