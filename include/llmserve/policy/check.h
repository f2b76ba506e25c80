/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants of a policy, which hold unless it has a bug. They are checked, and abort,
 * if LLS_CHECKS is defined: in this tree by configure --enable-checks, which
 * --enable-sanitizers implies. Otherwise they are compiled but cost nothing.
 */
#ifndef LLS_POL_CHECK_H
#define LLS_POL_CHECK_H

#ifdef LLS_CHECKS
#include <assert.h>
#define LLS_POL_CHECK(CONDITION) assert(CONDITION)
#else
#define LLS_POL_CHECK(CONDITION) ((void)(0 && (CONDITION)))
#endif

#endif
