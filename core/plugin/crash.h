/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last words of a process that a plugin has crashed: which plugin, which callback of
 * it, and the backtrace, to stderr; then the signal has its way, so that the exit status
 * and a core dump are those of the crash. A plugin that calls exit(), quick_exit(),
 * _exit() or _Exit() gets the same line, and the exit status is a failure's.
 */
#ifndef LLS_PLUGIN_CRASH_H
#define LLS_PLUGIN_CRASH_H

struct lls_plugin_module;

/* [main] Once, in the server and in each tool that opens plugins. A sanitizer keeps its
 * own word. */
void lls_crash_install(void);
/* [main] From here on the process may exit. */
void lls_crash_may_exit(void);
/* [main] In a child of fork that goes on to call plugins; nothing without install. */
void lls_crash_forked(void);
/* [any] A stack for the calling thread's last words, so that it may also die of an
 * endless recursion. The main thread has its own from install. */
void lls_crash_stack(void);

/* Called by the loader for every open plugin. */
void lls_crash_add(struct lls_plugin_module *);
void lls_crash_remove(const struct lls_plugin_module *);

#endif
