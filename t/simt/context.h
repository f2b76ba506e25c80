/* SPDX-License-Identifier: Apache-2.0 */
/* A stack that is left and come back to; switch.h. */
#ifndef LLS_SIMT_CONTEXT_H
#define LLS_SIMT_CONTEXT_H

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

struct simt_context { /* of a stack that is not running */
  void *sp = nullptr;
  const void *bottom = nullptr; /* of the stack, for the sanitizer */
  size_t bytes = 0;
  void *fake_stack = nullptr;
#if !defined(__x86_64__) && !defined(__aarch64__)
  ucontext_t whole;
#endif
};

#endif
