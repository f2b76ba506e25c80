/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See crash.h. A signal handler has no argument that could point to data: so the table
 * of open plugins and the alternate stacks are the only data with process lifetime. The
 * handler is async-signal-safe: no allocation, no stdio; backtrace() is called once at
 * installation, since its first call loads libgcc.
 *
 * The innermost stack frame inside a plugin names the plugin. The callback is the one
 * recorded on entry (trail.h), because a stripped plugin has no symbols, a function may
 * be split or tail-called, and the stack of a recursion is too long to walk.
 */
#include "core/plugin/crash.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/plugin/loader.h"
#include "core/plugin/trail.h"

#ifdef __has_feature /* clang does not define gcc's macros for sanitizers */
#define LLS_CLANG_SANITIZES                                                              \
  (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define LLS_CLANG_SANITIZES 0
#endif

#define MAX_PLUGINS 64 /* open at once; further plugins are not named */
#define MAX_FRAMES  64
#define STACK_BYTES 65536
#define MAX_WAIT_MS 200

static _Atomic(const struct lls_plugin_module *) plugins[MAX_PLUGINS];
_Thread_local struct lls_trail lls_trail;
static _Thread_local char stack[STACK_BYTES];
static _Thread_local sigjmp_buf walk; /* jump target if the stack cannot be walked */
static atomic_bool may_exit;
static _Atomic pid_t owner; /* the process that installed the handlers */

/* ---- the table ---------------------------------------------------------------- */

static int find_extent(struct dl_phdr_info *info, size_t size, void *context)
{
  (void)size;
  struct lls_plugin_module *m = context;
  const struct link_map *map = m->image.handle;
  if (info->dlpi_addr != map->l_addr)
    return 0;
  m->begin = info->dlpi_addr;
  for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    if (segment->p_type == PT_LOAD && end > m->end)
      m->end = end;
  }
  return 1;
}

void lls_crash_add(struct lls_plugin_module *m)
{
  dl_iterate_phdr(find_extent, m);
  for (size_t i = 0; i < MAX_PLUGINS; i++) {
    const struct lls_plugin_module *none = NULL;
    if (atomic_compare_exchange_strong(&plugins[i], &none, m))
      return;
  }
}

void lls_crash_remove(const struct lls_plugin_module *m)
{
  for (size_t i = 0; i < MAX_PLUGINS; i++) {
    const struct lls_plugin_module *expected = m;
    if (atomic_compare_exchange_strong(&plugins[i], &expected, NULL))
      return;
  }
}

static const struct lls_plugin_module *plugin_at(const void *address)
{
  for (size_t i = 0; i < MAX_PLUGINS; i++) {
    const struct lls_plugin_module *m = atomic_load(&plugins[i]);
    if (m != NULL && (uintptr_t)address >= m->begin && (uintptr_t)address < m->end)
      return m;
  }
  return NULL;
}

/* ---- writing to stderr -------------------------------------------------------- */

static void put(const char *text)
{
  if (write(STDERR_FILENO, text, strlen(text)) < 0)
    return; /* stderr does not work, so the error cannot be reported */
}

static void put_offset(uintptr_t offset)
{
  char digits[2 * sizeof offset + 4], *p = digits + sizeof digits - 1;
  *p = '\0';
  do
    *--p = "0123456789abcdef"[offset & 15];
  while ((offset >>= 4) != 0);
  *--p = 'x';
  *--p = '0';
  *--p = '+';
  put(p);
}

static const char *signal_name(int number)
{
  switch (number) {
  case SIGSEGV:
    return "SIGSEGV";
  case SIGBUS:
    return "SIGBUS";
  case SIGILL:
    return "SIGILL";
  case SIGFPE:
    return "SIGFPE";
  default:
    return "SIGABRT";
  }
}

/* ---- the running callback ----------------------------------------------------- */

/* Returns the innermost callback of this plugin in which the thread is; NULL if the
 * thread is the plugin's own. */
static const char *callback_of(const struct lls_plugin_module *m)
{
  uint32_t depth = lls_trail.depth < LLS_TRAIL_DEPTH ? lls_trail.depth : LLS_TRAIL_DEPTH;
  while (depth-- > 0)
    if (lls_trail.under_way[depth].kind == m->copy.kind)
      return lls_trail.under_way[depth].callback;
  return NULL;
}

static void put_plugin(const struct lls_plugin_module *m)
{
  put(lls_plugin_kind_name(m->copy.kind));
  put(" ");
  put(m->copy.id);
}

/* Returns the innermost plugin on the stack; if the stack is unreadable, the plugin that
 * this thread entered last. */
static const struct lls_plugin_module *culprit(void *const *frames, int n)
{
  uint32_t depth = lls_trail.depth < LLS_TRAIL_DEPTH ? lls_trail.depth : LLS_TRAIL_DEPTH;
  for (int i = 0; i < n; i++)
    if (plugin_at(frames[i]) != NULL)
      return plugin_at(frames[i]);
  for (size_t i = 0; i < MAX_PLUGINS && depth > 0; i++) {
    const struct lls_plugin_module *m = atomic_load(&plugins[i]);
    if (m != NULL && m->copy.kind == lls_trail.under_way[depth - 1].kind)
      return m;
  }
  return NULL;
}

static void put_culprit(void *const *frames, int n)
{
  const struct lls_plugin_module *m = culprit(frames, n);
  if (m == NULL) {
    put(" outside of every plugin\n");
    return;
  }
  const char *callback = callback_of(m);
  put(" while ");
  put(callback != NULL ? callback : "a thread");
  put(" of the ");
  put_plugin(m);
  put(" ");
  put(m->copy.version);
  put(" (");
  put(m->path);
  put(") was running\n");
}

static void put_frame(void *address)
{
  const struct lls_plugin_module *m = plugin_at(address);
  put("  ");
  if (m == NULL) {
    backtrace_symbols_fd(&address, 1, STDERR_FILENO);
    return;
  }
  put_plugin(m);
  put_offset((uintptr_t)address - m->begin);
  put("\n");
}

/* Returns true if stderr can be written at once: a pipe without a reader must not block
 * a crashed process. */
static bool is_read(void)
{
  struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
  return poll(&room, 1, MAX_WAIT_MS) > 0;
}

static void on_unwalkable(int number)
{
  (void)number;
  siglongjmp(walk, 1);
}

/* Returns the number of frames; 0 if the crash has overwritten the stack. */
static int walk_stack(void *frames[MAX_FRAMES])
{
  static const int faults[] = {SIGSEGV, SIGBUS};
  const struct sigaction guard = {.sa_handler = on_unwalkable, .sa_flags = SA_ONSTACK};
  struct sigaction before[2];
  sigset_t open, blocked;
  sigemptyset(&open);
  for (int i = 0; i < 2; i++) {
    sigaddset(&open, faults[i]);
    sigaction(faults[i], &guard, &before[i]);
  }
  pthread_sigmask(SIG_UNBLOCK, &open, &blocked);
  int n = sigsetjmp(walk, 1) == 0 ? backtrace(frames, MAX_FRAMES) : 0;
  pthread_sigmask(SIG_SETMASK, &blocked, NULL);
  for (int i = 0; i < 2; i++)
    sigaction(faults[i], &before[i], NULL);
  return n;
}

/* Writes the last words. The backtrace omits this function, walk_stack, and the frame
 * of the signal or of exit. */
static __attribute__((noinline)) void put_last_words(const char *what)
{
  void *frames[MAX_FRAMES];
  int n = walk_stack(frames);
  put("llmserve: ");
  put(what);
  put_culprit(frames, n);
  for (int i = 4; i < n; i++)
    put_frame(frames[i]);
}

static void on_crash(int number)
{
  if (is_read())
    put_last_words(signal_name(number));
  raise(number); /* the signal's default action runs when this handler returns */
}

static void on_exit_by_others(void)
{
  if ((atomic_load(&may_exit) && lls_trail.depth == 0) || getpid() != atomic_load(&owner))
    return; /* the program ends normally, or this is a forked process */
  if (is_read())
    put_last_words("exit() was called");
  _exit(EXIT_FAILURE);
}

/* ---- exiting without handlers ------------------------------------------------------ */

/*
 * _exit, _Exit and quick_exit run no exit handlers, so the program defines its own, to
 * which plugins are bound since the dynamic linker searches the program first. Calls
 * from outside of plugins, such as in a child after fork, behave as usual. Sanitizers
 * define their own.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                   \
    !LLS_CLANG_SANITIZES
static _Noreturn void leave(int status, const void *caller, const char *what)
{
  if (plugin_at(caller) != NULL && getpid() == atomic_load(&owner)) {
    if (is_read())
      put_last_words(what);
    status = EXIT_FAILURE;
  }
  for (;;)
    syscall(SYS_exit_group, status);
}

__attribute__((visibility("default"))) void _exit(int status)
{
  leave(status, __builtin_return_address(0), "_exit() was called");
}

__attribute__((visibility("default"))) void _Exit(int status)
{
  leave(status, __builtin_return_address(0), "_Exit() was called");
}
#endif

void lls_crash_may_exit(void)
{
  LLS_ON_MAIN_THREAD();
  atomic_store(&may_exit, true);
}

void lls_crash_forked(void)
{
  LLS_ON_MAIN_THREAD();
  if (atomic_load(&owner) != 0)
    atomic_store(&owner, getpid());
}

/* ---- installing --------------------------------------------------------------- */

/* A thread keeps the alternate stack that a sanitizer has given it; the sanitizer frees
 * that stack when the thread ends. */
void lls_crash_stack(void)
{
  const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  stack_t before;
  if (sigaltstack(NULL, &before) == 0 && (before.ss_flags & SS_DISABLE))
    sigaltstack(&own, NULL);
}

/* Installs the handler, unless there is one: a sanitizer's own reports more. */
static void handle(int number)
{
  struct sigaction before,
      after = {.sa_handler = on_crash, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};
  if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
    sigaction(number, &after, NULL);
}

void lls_crash_install(void)
{
  LLS_ON_MAIN_THREAD();
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  void *frame;
  backtrace(&frame, 1);
  lls_crash_stack();
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    handle(signals[i]);
  atomic_store(&owner, getpid());
  atexit(on_exit_by_others);
  at_quick_exit(on_exit_by_others);
}
