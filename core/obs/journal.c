/* SPDX-License-Identifier: Apache-2.0 */
/* See journal.h. */
#include "core/obs/journal.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <llmserve/host.h>

/* True if fd is the stream that the service manager connected to the journal:
 * JOURNAL_STREAM has its "device:inode". */
static bool is_journal(int fd)
{
  const char *stream = getenv("JOURNAL_STREAM");
  uint64_t device, inode;
  struct stat st;
  return stream != NULL && sscanf(stream, "%" SCNu64 ":%" SCNu64, &device, &inode) == 2 &&
         fstat(fd, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

int lls_journal_open(int fd)
{
  const struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = LLS_JOURNAL_SOCKET};
  int journal = is_journal(fd) ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
  if (journal < 0)
    return -1;
  if (connect(journal, (const struct sockaddr *)&to, sizeof to) == 0)
    return journal;
  close(journal);
  return -1;
}

static int priority(uint32_t level)
{
  switch (level) {
  case LLS_LOG_ERROR:
    return LOG_ERR;
  case LLS_LOG_INFO:
    return LOG_INFO;
  case LLS_LOG_DEBUG:
    return LOG_DEBUG;
  default:
    return LOG_WARNING; /* misbehaviour too */
  }
}

/* A newline ends a field's value, so newlines in the message become blanks. */
size_t lls_journal_record(uint32_t level, const char *where, const char *message,
                          char *record)
{
  const size_t size = LLS_JOURNAL_MAX;
  int head = snprintf(record, size,
                      "SYSLOG_IDENTIFIER=llmserve\nPRIORITY=%d\nLLMSERVE_WHERE=%s\n"
                      "MESSAGE=",
                      priority(level), where);
  int used =
      head + snprintf(record + head, size - (size_t)head - 1, "%s: %s", where, message);
  size_t length = (size_t)used < size - 1 ? (size_t)used : size - 2;
  for (char *p = record + head; p < record + length; p++)
    if (*p == '\n')
      *p = ' ';
  record[length++] = '\n';
  return length;
}
