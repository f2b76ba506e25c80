/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing from one stack to another: what the ABI lets a function call destroy need not
 * be kept, so a switch is a call that stores the other registers on the stack it leaves
 * and takes them from the one it comes to. x86-64 (System V ABI, section 3.2.1) and
 * AArch64 (AAPCS64, section 6.1); elsewhere swapcontext.
 *
 * It returns by a jump: a processor predicts the target of `ret` from the calls it has
 * seen, which were made on the other stack, so it mispredicted each time. Each switch
 * is reported to the address sanitizer, which would otherwise take a fiber's frames for
 * those of the first stack. So this file is built with it, other than simt.cpp.
 */
#include "context.h"

#include <cstdint>
#include <cstring>

#ifdef __SANITIZE_ADDRESS__
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
extern "C" void simt_swap(void **from, void *to) __attribute__((visibility("hidden")));
asm(R"(
  .text
  .globl simt_swap
  .hidden simt_swap
  .type simt_swap, @function
simt_swap:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  notrack jmpq *%rcx
  .size simt_swap, . - simt_swap
)");

/* Six registers, where to return to, and the word that a call leaves the stack odd by. */
static inline void *simt_first_frame(char *top, void (*entry)())
{
  void *frame[8] = {};
  frame[6] = (void *)entry;
  return std::memcpy(top - sizeof frame, frame, sizeof frame);
}
#elif defined(__aarch64__)
extern "C" void simt_swap(void **from, void *to) __attribute__((visibility("hidden")));
asm(R"(
  .text
  .globl simt_swap
  .hidden simt_swap
  .type simt_swap, %function
simt_swap:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size simt_swap, . - simt_swap
)");

static inline void *simt_first_frame(char *top, void (*entry)())
{
  void *frame[20] = {};
  frame[11] = (void *)entry; /* x30 */
  return std::memcpy(top - sizeof frame, frame, sizeof frame);
}
#endif

void simt_make(simt_context &c, char *stack, size_t bytes, void (*entry)())
{
  c.bottom = stack;
  c.bytes = bytes;
  c.fake_stack = nullptr;
#ifdef SIMT_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack, bytes);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  c.sp = simt_first_frame(stack + bytes, entry);
#else
  getcontext(&c.whole);
  c.whole.uc_stack.ss_sp = stack;
  c.whole.uc_stack.ss_size = bytes;
  c.whole.uc_link = nullptr;
  makecontext(&c.whole, entry, 0);
#endif
}

void simt_switch(simt_context &from, simt_context &to)
{
#ifdef SIMT_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  simt_swap(&from.sp, to.sp);
#else
  swapcontext(&from.whole, &to.whole);
#endif
#ifdef SIMT_ASAN
  __sanitizer_finish_switch_fiber(from.fake_stack, &to.bottom, &to.bytes);
#endif
}

void simt_arrived(simt_context &from)
{
#ifdef SIMT_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &from.bottom, &from.bytes);
#else
  (void)from;
#endif
}
