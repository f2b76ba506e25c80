/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last words of a process that a plugin has crashed: the plugin, its callback, and
 * the backtrace, written to stderr. Then the signal takes its default action, so that
 * exit status and core dump are those of the crash. A plugin that calls exit(),
 * quick_exit(), _exit() or _Exit() produces the same line, and the exit status is a
 * failure's.
 */
#ifndef LLS_PLUGIN_CRASH_H
#define LLS_PLUGIN_CRASH_H

struct lls_plugin_module;

/* [main] Installs the handlers, once, in the server and in each tool that opens
 * plugins. A sanitizer's own handlers remain. */
void lls_crash_install(void);
/* [main] Call it before a normal exit: exit is then no error. */
void lls_crash_may_exit(void);
/* [main] Call it in a child of fork that continues to call plugins; without install it
 * does nothing. */
void lls_crash_forked(void);
/* [any] Gives the calling thread an alternate stack for its last words, so that they
 * also work after a stack overflow. The main thread gets one from lls_crash_install. */
void lls_crash_stack(void);

/* Called by the loader for every open plugin. */
void lls_crash_add(struct lls_plugin_module *);
void lls_crash_remove(const struct lls_plugin_module *);

#endif
