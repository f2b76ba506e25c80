/* SPDX-License-Identifier: Apache-2.0 */
/*
 * [server] sandbox: the process gives up what serving does not need, so that whoever gets
 * to run code in it (by a model's file, a request, a plugin that is wrong) gets little.
 *
 *   files   Landlock, before there are threads: nothing is written but where the
 *           configuration says and /dev/null, no program is run but this one, no outgoing
 *           TCP connection is made and no other process is sent a signal. `on`: nothing
 * is read but the folders of what the configuration names, the plugins and the system.
 * `auto` lets a reload name files anywhere.
 *
 *   calls   seccomp, when all is ready, for every thread: the system calls of a server,
 *           any other is unknown (ENOSYS), as an older kernel would say. No socket is
 * made or connected, no namespace, nothing is typed into a terminal, and execve takes one
 * string by its address: this program, which tries a plugin's file.
 *
 * `auto` also lets llmserve-whatif and what it runs be executed ([server] history), for
 * which the dynamic linker may be, and that runs whatever can be read.
 *
 * Both are kept by the processes that try plugins for a reload (core/plugin/trial.h).
 */
#ifndef LLS_SERVE_SANDBOX_H
#define LLS_SERVE_SANDBOX_H

#include "core/config/config.h"

/* Should there be one? Not beside MPI or the driver of a GPU, which have ways of their
 * own, unless the configuration insists; then `why` says so. */
bool sandbox_is_wanted(const struct lls_config *, bool mpi, const char **why_not);

/* Programs that answer /admin/whatif may be run: not where the sandbox is `on`. */
bool sandbox_runs_whatif(const struct lls_config *);

/* 0: done, and `done` says what, for people. -ENOSYS: this kernel or build has none.
 * Else it went wrong half way. */
int sandbox_files(const struct lls_config *, char *done, size_t size,
                  struct lls_error *err);
int sandbox_calls(const struct lls_config *, char *done, size_t size,
                  struct lls_error *err);

#endif
