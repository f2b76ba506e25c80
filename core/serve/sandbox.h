/* SPDX-License-Identifier: Apache-2.0 */
/*
 * [server] sandbox: the process gives up rights that serving does not need, so that an
 * attacker who runs code in it (by a model's file, a request or a faulty plugin) gains
 * little.
 *
 *   files   Landlock, before there are threads: nothing is written but where the
 *           configuration says and /dev/null, no program is run but this one, no outgoing
 *           TCP connection is made and no other process is sent a signal. `on`: nothing
 * is read but the folders of what the configuration names, the plugins and the system.
 * `auto` lets a reload name files anywhere.
 *
 *   calls   seccomp, when all is ready, for every thread: the system calls of a server,
 *           any other is unknown (ENOSYS), as an older kernel would say. No socket is
 * made or connected, no namespace, nothing is typed into a terminal, and execve takes
 * one string by its address: this program, which tries a plugin's file.
 *
 * `auto` also allows executing llmserve-whatif and the programs that it runs ([server]
 * history). That takes execute rights for the dynamic linker too, and the linker can run
 * any readable program.
 *
 * Processes that try plugins for a reload (core/plugin/trial.h) inherit both.
 */
#ifndef LLS_SERVE_SANDBOX_H
#define LLS_SERVE_SANDBOX_H

#include "core/config/config.h"

/* True if there should be a sandbox. MPI and GPU drivers access the system in ways of
 * their own, so with them only if the configuration insists; otherwise why_not has the
 * reason. */
bool sandbox_is_wanted(const struct lls_config *, bool mpi, const char **why_not);

/* True if the programs that answer /admin/whatif may be run, which the sandbox `on`
 * forbids. */
bool sandbox_runs_whatif(const struct lls_config *);

/* Returns 0, with a text for people in `done`; -ENOSYS: this kernel or build has no
 * sandbox; another negative errno: it failed half way. */
int sandbox_files(const struct lls_config *, char *done, size_t size,
                  struct lls_error *err);
int sandbox_calls(const struct lls_config *, char *done, size_t size,
                  struct lls_error *err);

#endif
