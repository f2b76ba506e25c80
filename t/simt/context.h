/* SPDX-License-Identifier: Apache-2.0 */
/* A stack that is left and come back to; switch.cpp. */
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

/* A stack that begins with entry, which must call simt_arrived and never return. What an
 * abandoned run left of it is forgotten. */
void simt_make(simt_context &c, char *stack, size_t bytes, void (*entry)());
/* The stack that it comes back from is another one if another thread runs blocks now. */
void simt_switch(simt_context &from, simt_context &to);
/* A new stack's first words; `from`: the one that it was switched to from. */
void simt_arrived(simt_context &from);

#endif
