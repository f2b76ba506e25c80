/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native protocol of the systemd journal: one datagram for each line of the log, with
 * fields (`journalctl LLMSERVE_WHERE=reload`). systemd documents it as stable, so no
 * library is needed.
 */
#ifndef LLS_OBS_JOURNAL_H
#define LLS_OBS_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#define LLS_JOURNAL_SOCKET "/run/systemd/journal/socket"

/* Returns a socket to the journal if JOURNAL_STREAM says that fd is connected to it; else
 * -1. */
int lls_journal_open(int fd);
#define LLS_JOURNAL_MAX 4096

/* Writes the datagram of a line to record (LLS_JOURNAL_MAX bytes) and returns its length.
 * level: enum lls_log_level. */
size_t lls_journal_record(uint32_t level, const char *where, const char *message,
                          char *record);

#endif
