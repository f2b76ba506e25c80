/* SPDX-License-Identifier: Apache-2.0 */
/* Serving, from the first socket to the last answer. */
#ifndef LLS_SERVE_SERVE_H
#define LLS_SERVE_SERVE_H

#include "core/base/error.h"

struct lls_config;

/* Checks that the process may open as many files as serving takes; 0 or -EMFILE. Before
 * the configuration is loaded, which opens plugins. */
int lls_serve_check_descriptors(struct lls_error *err);

/* Serves until it is told to stop, and frees the configuration, or the one that a reload
 * put in its place; the exit status of the process. */
int lls_serve(struct lls_config *);

/* Checks if it could serve, 0 or -1: errors and warnings go to
 * stderr, a sentence a line. Nothing is listened to and no weight is read. */
int lls_serve_check(struct lls_config *);

#endif
