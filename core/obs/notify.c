/* SPDX-License-Identifier: Apache-2.0 */
/* See notify.h. */
#include "core/obs/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/check.h"

void lls_notify(const char *format, ...)
{
  const char *path = getenv("NOTIFY_SOCKET");
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  LLS_ON_MAIN_THREAD();
  if (path == NULL || strlen(path) < 2 || strlen(path) >= sizeof to.sun_path)
    return;
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  memcpy(to.sun_path, path, strlen(path));
  if (path[0] == '@') /* a name in the abstract namespace begins with NUL */
    to.sun_path[0] = '\0';
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return;
  if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to, length) < 0)
    /* the service manager will notice the silence and report it */
    perror("llmserve: NOTIFY_SOCKET");
  close(fd);
}

int64_t lls_notify_watchdog_ns(void)
{
  const char *pid = getenv("WATCHDOG_PID"), *us = getenv("WATCHDOG_USEC");
  LLS_ON_MAIN_THREAD();
  if (us == NULL || (pid != NULL && atol(pid) != (long)getpid()))
    return 0;
  return atoll(us) * 1000;
}
