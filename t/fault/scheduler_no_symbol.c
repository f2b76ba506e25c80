/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no plugin. */
#include "t/fault/fixture.h"

LLS_PLUGIN_EXPORT const int some_other_symbol = 1;
