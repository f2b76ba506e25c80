/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The findings of a check. A check runs in a process of its own, since a plugin may crash
 * or hang; it writes its findings into a pipe to the parent, one a line, and its position
 * to a page that both share.
 */
#ifndef CHECK_FINDINGS_H
#define CHECK_FINDINGS_H

#include <stdint.h>

#define WHERE_MAX    128
#define FINDINGS_MAX 6 /* of one check: what comes after them is counted only */

struct findings {
  int fd;      /* the pipe */
  char *where; /* (WHERE_MAX) shared: what of the plugin runs, "" = nothing */
  uint32_t n;  /* things wrong */
};

/* Something is wrong: a sentence about the plugin. */
void found(struct findings *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Worth knowing, not wrong. */
void noted(struct findings *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The check does not apply. */
void skipped(struct findings *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* It is a scheduler that runs on nothing less than two instances with roles. */
void needs_roles(struct findings *);
/* The plugin's identity: kind and "id version". */
void identified(struct findings *, uint32_t kind, const char *id, const char *version);

#endif
