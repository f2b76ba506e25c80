/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of invariants that hold unless the core has a bug. They run only in builds with
 * configure --enable-checks (.ci/run: the sanitizers' half). Data from plugins, clients
 * and files is no invariant: every build checks it and returns an error.
 */
#ifndef LLS_BASE_CHECK_H
#define LLS_BASE_CHECK_H

#include <stdbool.h>

/* [any] Returns a pointer that identifies the calling thread: no other running thread has
 * the same. */
const void *lls_this_thread(void);

/* [any] True if the calling thread is the process's first one. */
bool lls_is_main_thread(void);

/* Prints the failed condition and its place, and aborts. */
_Noreturn void lls_check_failed(const char *condition, const char *file, int line);

#ifdef LLS_CHECKS
#define LLS_CHECKING true
#define LLS_CHECK(CONDITION)                                                             \
  ((CONDITION) ? (void)0 : lls_check_failed(#CONDITION, __FILE__, __LINE__))
#else
#define LLS_CHECKING         false
#define LLS_CHECK(CONDITION) ((void)(0 && (CONDITION))) /* compiled, never evaluated */
#endif

/* Checks that the calling thread is OWNER, as the thread tag of a function demands. */
#define LLS_ON(OWNER) LLS_CHECK((OWNER) == lls_this_thread())

/* Checks that the calling thread is [main], where no owner is at hand. */
#define LLS_ON_MAIN_THREAD() LLS_CHECK(lls_is_main_thread())

#endif
