/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants that hold unless there is a bug in the core, and are looked at in builds
 * with configure --enable-checks (.ci/run: the sanitizers' half). What plugins, clients
 * and files say is no invariant: it is checked in every build, and has an error.
 */
#ifndef LLS_BASE_CHECK_H
#define LLS_BASE_CHECK_H

#include <stdbool.h>

/* [any] The calling thread, to be compared: no other thread that lives has the same. */
const void *lls_this_thread(void);

/* [any] Is the calling thread the one that the process began with? */
bool lls_is_main_thread(void);

/* Names the condition that does not hold, and where; aborts. */
_Noreturn void lls_check_failed(const char *condition, const char *file, int line);

#ifdef LLS_CHECKS
#define LLS_CHECKING true
#define LLS_CHECK(CONDITION)                                                             \
  ((CONDITION) ? (void)0 : lls_check_failed(#CONDITION, __FILE__, __LINE__))
#else
#define LLS_CHECKING         false
#define LLS_CHECK(CONDITION) ((void)(0 && (CONDITION))) /* compiled, not computed */
#endif

/* The calling thread is OWNER: checks the thread tag of a function while it runs.
 */
#define LLS_ON(OWNER) LLS_CHECK((OWNER) == lls_this_thread())

/* The same of [main], where there is no owner to compare with. */
#define LLS_ON_MAIN_THREAD() LLS_CHECK(lls_is_main_thread())

#endif
