/* SPDX-License-Identifier: Apache-2.0 */
/* Serving, from the first socket to the last answer. */
#ifndef LLS_SERVE_SERVE_H
#define LLS_SERVE_SERVE_H

#include "core/base/error.h"

struct lls_config;
struct lls_devices;

/* Checks that the process may open as many files as serving takes; 0 or -EMFILE. Call
 * it before the configuration is loaded, which opens plugins. */
int lls_serve_check_descriptors(struct lls_error *err);

/* In the process of one model of [models]: has it end when the router ends. Call it
 * first.
 */
void lls_serve_follow_router(void);

/* Serves until it is asked to stop, and returns the exit status of the process. Frees
 * the configuration, or the one that a reload has replaced it by. */
int lls_serve(struct lls_config *, const struct lls_devices *);

/* Checks whether this configuration could serve: 0 or -1. Errors and warnings go to
 * stderr, a sentence a line. It does not listen and reads no weight. */
int lls_serve_check(struct lls_config *, const struct lls_devices *);

#endif
