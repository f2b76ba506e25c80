/* SPDX-License-Identifier: Apache-2.0 */
/* A status for people, and the difference between what runs and a file. */
#ifndef LLS_CTL_PRINT_H
#define LLS_CTL_PRINT_H

#include <jansson.h>

void ctl_print_status(const json_t *status);
void ctl_print_queues(const json_t *queues);
void ctl_print_plugins(const json_t *status);
/* One line, under its heading if `heading`; `before` (or NULL) `seconds` earlier gives
 * rates. */
void ctl_print_watch(const json_t *status, const json_t *before, double seconds,
                     int heading);

/* ---- diff.c */
/* Prints each key whose text differs, and whether a reload can change it. How many; < 0:
 * the file can't be loaded, and why was printed. */
int ctl_diff(const json_t *running, const char *path);

#endif
