/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a shared object in another process first. That process is this program again,
 * with one argument; it has the copy of the file and nothing else of ours: no socket, no
 * terminal, no memory. What kills it, or lasts longer than a few seconds, would have done
 * so here.
 */
#ifndef LLS_PLUGIN_TRIAL_H
#define LLS_PLUGIN_TRIAL_H

#define LLS_TRIAL_ARGUMENT "--try-shared-object" /* not in --help: nobody else's */

#define LLS_TRIAL_COPY    3 /* descriptor of it there, the last that is open */
#define LLS_TRIAL_SECONDS 5
#define LLS_TRIAL_SURVIVED                                                               \
  77 /* status; a constructor that ends its process has another */

/* The path of this program. Under [server] sandbox execve takes no other string, by its
 * address. */
extern const char lls_trial_program[];

/* In llmserve alone, by the thread that starts or reloads. 0: it lived, or no other
 * process can be had; -ENOEXEC: died says how, as in "opening it died of SIGSEGV". Waits
 * for it. */
int lls_trial(int fd, char died[128]);

/* The other side of it: what main does, given the argument. Its exit status. */
int lls_trial_main(void);

#endif
