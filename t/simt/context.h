/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that can be left and resumed; switch.cpp. */
#ifndef LLS_SIMT_CONTEXT_H
#define LLS_SIMT_CONTEXT_H

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

struct simt_context { /* of a suspended stack */
  void *sp = nullptr;
  const void *bottom = nullptr; /* of the stack, for the sanitizer */
  size_t bytes = 0;
  void *fake_stack = nullptr;
#if !defined(__x86_64__) && !defined(__aarch64__)
  ucontext_t whole;
#endif
};

/* Makes a stack that begins with entry, which must call simt_arrived and never return.
 * Any earlier run on this stack is discarded. */
void simt_make(simt_context &c, char *stack, size_t bytes, void (*entry)());
/* Switches stacks. `from` may be resumed from another stack, if another thread runs
 * blocks then. */
void simt_switch(simt_context &from, simt_context &to);
/* Must be the first call on a new stack; `from`: the stack that it was switched to
 * from. */
void simt_arrived(simt_context &from);

#endif
