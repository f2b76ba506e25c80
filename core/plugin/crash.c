/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See crash.h. A signal handler has no argument to find things by: the table of open
 * plugins and the stacks are the only things that live for the process. What runs in the
 * handler is async-signal-safe: no allocation, no stdio; backtrace() is called once at
 * installation, since its first call loads libgcc.
 *
 * The innermost frame inside a plugin names the plugin. Its callback is what was noted on
 * entering it (LLS_CALL): a stripped plugin has no names, a function may be split or
 * called in tail position, and a recursion's stack is too long to walk.
 */
#include "core/plugin/crash.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/plugin/loader.h"

#define MAX_PLUGINS 64 /* open at once; those beyond are not named */
#define MAX_FRAMES  64
#define STACK_BYTES 65536
#define MAX_WAIT_MS 200

static _Atomic(const struct lls_plugin_module *) plugins[MAX_PLUGINS];
_Thread_local struct lls_crash_note lls_crash_note;
static _Thread_local char stack[STACK_BYTES];

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

/* ---- writing ------------------------------------------------------------------ */

static void put(const char *text)
{
  if (write(STDERR_FILENO, text, strlen(text)) < 0)
    return; /* nowhere left to complain */
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

/* ---- who was running ---------------------------------------------------------- */

static const char *callback_of(const struct lls_plugin_module *m)
{
  switch (m->copy.kind) {
  case LLS_KIND_SCHEDULER:
    return lls_crash_note.scheduler;
  case LLS_KIND_CACHE:
    return lls_crash_note.cache;
  default:
    return lls_crash_note.predictor;
  }
}

static void put_plugin(const struct lls_plugin_module *m)
{
  put(lls_plugin_kind_name(m->copy.kind));
  put(" ");
  put(m->copy.id);
}

static void put_culprit(void *const *frames, int n)
{
  int first = 0;
  while (first < n && plugin_at(frames[first]) == NULL)
    first++;
  if (first == n) {
    put(" outside of every plugin\n");
    return;
  }
  const struct lls_plugin_module *m = plugin_at(frames[first]);
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

/* A pipe that nobody reads must not keep a process that has crashed. */
static bool is_read(void)
{
  struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
  return poll(&room, 1, MAX_WAIT_MS) > 0;
}

static __attribute__((noinline)) void report(int number)
{
  void *frames[MAX_FRAMES];
  int n = backtrace(frames, MAX_FRAMES);
  put("llmserve: ");
  put(signal_name(number));
  put_culprit(frames, n);
  for (int i = 3; i < n; i++) /* without these functions and the signal's trampoline */
    put_frame(frames[i]);
}

static void on_crash(int number)
{
  if (is_read())
    report(number);
  raise(number); /* its default action now, once this returns */
}

/* ---- installing --------------------------------------------------------------- */

/* A thread that has one, a sanitizer's, keeps it: it is given back when the
 * thread ends. */
void lls_crash_stack(void)
{
  const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  stack_t before;
  if (sigaltstack(NULL, &before) == 0 && (before.ss_flags & SS_DISABLE))
    sigaltstack(&own, NULL);
}

/* Whoever handles it already, a sanitizer, knows more. */
static void handle(int number)
{
  struct sigaction before,
      after = {.sa_handler = on_crash, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};
  if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
    sigaction(number, &after, NULL);
}

void lls_crash_install(void)
{
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  void *frame;
  backtrace(&frame, 1);
  lls_crash_stack();
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    handle(signals[i]);
}
