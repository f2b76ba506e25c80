/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a status for people, and the differences between the running configuration and
 * a file. */
#ifndef LLS_CTL_PRINT_H
#define LLS_CTL_PRINT_H

#include <jansson.h>

/* The kinds of policies, as /admin/status names them. */
#define CTL_KINDS 4
extern const char *const ctl_kinds[CTL_KINDS];
/* Returns an object's text; "-" if the server did not send it. */
const char *ctl_text(const json_t *object, const char *key);

void ctl_print_status(const json_t *status);
void ctl_print_queues(const json_t *queues);
void ctl_print_plugins(const json_t *status);
/* Prints one line, below its heading if `heading`; with `before` (or NULL), the status
 * `seconds` earlier, it has rates. */
void ctl_print_watch(const json_t *status, const json_t *before, double seconds,
                     int heading);

/* ---- diff.c */
/* Appends to `list` an object for each key whose text differs: section, key, running
 * (null: the server does not have it), file, needs_restart. Returns their number; < 0:
 * the file cannot be loaded, and the reason was printed. */
int ctl_diff(const json_t *running, const char *path, json_t *list);
void ctl_print_diff(const json_t *list);

#endif
