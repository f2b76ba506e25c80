/* SPDX-License-Identifier: Apache-2.0 */
/* Creates a new plugin: one of the SDK's examples under another name (share/sdk). */
#ifndef LLS_SDK_NEW_PLUGIN_H
#define LLS_SDK_NEW_PLUGIN_H

#include "core/base/error.h"

/* Creates the folder `name` with source, Makefile, test and ini of a plugin of that
 * kind ("scheduler", "cache", "predictor", "drafter"). After a failure nothing remains.
 */
int lls_new_plugin(const char *kind, const char *name, struct lls_error *err);

#endif
