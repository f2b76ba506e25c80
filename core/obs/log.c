/* SPDX-License-Identifier: Apache-2.0 */
/* One formatted line per call, written at once so that lines of two threads never mix. */
#include "core/obs/log.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/obs/journal.h"

#define LINE_MAX_BYTES 2048

static const char *level_name(uint32_t level)
{
  switch (level) {
  case LLS_LOG_ERROR:
    return "error";
  case LLS_LOG_WARNING:
    return "warning";
  case LLS_LOG_INFO:
    return "info";
  case LLS_LOG_DEBUG:
    return "debug";
  case LLS_LOG_PLUGIN_MISBEHAVING:
    return "plugin-misbehaving";
  default:
    return "host-misbehaving";
  }
}

/* Misbehaviour is as loud as a warning. */
static bool wanted(const struct lls_log *log, uint32_t level)
{
  uint32_t loudness = level > LLS_LOG_DEBUG ? LLS_LOG_WARNING : level;
  return loudness <= log->level;
}

static void timestamp(char *out, size_t size)
{
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t used = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(out + used, size - used, ".%03ldZ", now.tv_nsec / 1000000);
}

static void write_text(const struct lls_log *log, const char *time, uint32_t level,
                       const char *where, const char *message)
{
  char line[LINE_MAX_BYTES];
  int used = snprintf(line, sizeof line - 1, "%s %-7s %s: %s", time, level_name(level),
                      where, message);
  size_t length = (size_t)used < sizeof line - 1 ? (size_t)used : sizeof line - 2;
  line[length++] = '\n';
  if (write(log->fd, line, length) < 0)
    return; /* nowhere left to complain */
}

static void write_json(const struct lls_log *log, const char *time, uint32_t level,
                       const char *where, const char *message)
{
  json_t *line = json_pack("{s:s, s:s, s:s, s:s}", "time", time, "level",
                           level_name(level), "where", where, "message", message);
  if (line == NULL) { /* the message is not UTF-8 */
    write_text(log, time, level, where, message);
    return;
  }
  char *text = json_dumps(line, JSON_COMPACT);
  if (text != NULL)
    dprintf(log->fd, "%s\n", text);
  free(text);
  json_decref(line);
}

void lls_log(const struct lls_log *log, uint32_t level, const char *where,
             const char *format, ...)
{
  if (log == NULL || !wanted(log, level))
    return;
  char message[LINE_MAX_BYTES - 128];
  char time[40];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  if (log->format == LLS_LOG_JOURNAL) { /* it has its own time */
    lls_journal_write(log->fd, level, where, message);
    return;
  }
  timestamp(time, sizeof time);
  if (log->format == LLS_LOG_JSON)
    write_json(log, time, level, where, message);
  else
    write_text(log, time, level, where, message);
}
