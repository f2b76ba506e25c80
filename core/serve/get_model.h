/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches the model that a configuration names as at a hub, before it is loaded. */
#ifndef LLS_SERVE_GET_MODEL_H
#define LLS_SERVE_GET_MODEL_H

#include <stddef.h>

#include "core/base/error.h"

/*
 * [any] Looks for the model's name in the file (NULL: none) and the n settings, as
 * lls_config_load_with takes them, and fetches the model from the hub if it is the name
 * of one. Progress goes to stderr and to the service manager. If the hub does not answer
 * but the cache has the model, a warning is printed and 0 is returned. -ECANCELED: a
 * signal ended it, whose number is in *signal. Errors of the configuration are left to
 * its loading.
 */
int lls_get_model(const char *path, const char *const *settings, size_t n, int *signal,
                  struct lls_error *err);

#endif
