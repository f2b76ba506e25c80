/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a shared object in another process first. That process is this program again,
 * with one argument; it has the copy of the file and nothing else of the server: no
 * socket, no terminal, no memory. If it crashes, or takes longer than a few seconds,
 * the server would have, too.
 */
#ifndef LLS_PLUGIN_TRIAL_H
#define LLS_PLUGIN_TRIAL_H

/* Not in --help, since only the server uses it. */
#define LLS_TRIAL_ARGUMENT "--try-shared-object"

/* Descriptor of the copy in that process, its last open one. */
#define LLS_TRIAL_COPY     3
#define LLS_TRIAL_SECONDS  5
#define LLS_TRIAL_SURVIVED 77 /* exit status; exiting constructors have others */

/* The path of this program. Under [server] sandbox execve accepts no string at any
 * other address. */
extern const char lls_trial_program[];

/* In llmserve only, on the thread that starts or reloads. Waits for the other process.
 * Returns 0 if it survived, or could not be started; -ENOEXEC with the reason in died,
 * such as "opening it died of SIGSEGV". */
int lls_trial(int fd, char died[128]);

/* Runs in the other process: main calls it if the argument is given. Returns the exit
 * status. */
int lls_trial_main(void);

#endif
