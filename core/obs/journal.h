/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's native protocol: one datagram a line of the log, with fields
 * (`journalctl LLMSERVE_WHERE=reload`). Documented as stable by systemd; no library.
 */
#ifndef LLS_OBS_JOURNAL_H
#define LLS_OBS_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#define LLS_JOURNAL_SOCKET "/run/systemd/journal/socket"

/* A socket to write to, if fd is what JOURNAL_STREAM says the journal reads; else -1. */
int lls_journal_open(int fd);
#define LLS_JOURNAL_MAX 4096

/* The datagram of a line, in record (LLS_JOURNAL_MAX); its length. level: enum
 * lls_log_level. */
size_t lls_journal_record(uint32_t level, const char *where, const char *message,
                          char *record);

#endif
