/* SPDX-License-Identifier: Apache-2.0 */
/* Formats one line per call and writes it with one write(2), so that lines of two threads
 * never mix. */
#include "core/obs/log.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/obs/journal.h"
#include "core/obs/log_sink.h"

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

/* True if the line is to be written. Misbehaviour of a plugin counts as a warning. */
static bool wanted(const struct lls_log *log, uint32_t level)
{
  uint32_t loudness = level > LLS_LOG_DEBUG ? LLS_LOG_WARNING : level;
  return loudness <= log->level;
}

static void emit(const struct lls_log *log, const void *line, size_t length)
{
  if (log->sink != NULL)
    lls_log_sink_put(log->sink, line, length);
  else if (write(log->fd, line, length) < 0)
    errno = 0; /* there is no place to report the error */
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

/* Replaces control characters: a client's text must not begin a new line or control a
 * terminal. */
static void hide_controls(char *line, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
      line[i] = '?';
}

static void write_text(const struct lls_log *log, const char *time, uint32_t level,
                       const char *where, const char *message)
{
  char line[LINE_MAX_BYTES];
  int used = snprintf(line, sizeof line - 1, "%s %-7s %s: %s", time, level_name(level),
                      where, message);
  size_t length = (size_t)used < sizeof line - 1 ? (size_t)used : sizeof line - 2;
  hide_controls(line, length);
  line[length++] = '\n';
  emit(log, line, length);
}

/* Writes the object as a line, with one write(2), and releases it. */
static void write_object(const struct lls_log *log, json_t *line)
{
  const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
  size_t length = json_dumpb(line, NULL, 0, flags);
  char *text = malloc(length + 1);
  if (text != NULL && length > 0) {
    json_dumpb(line, text, length, flags);
    text[length] = '\n';
    emit(log, text, length + 1);
  }
  free(text);
  json_decref(line);
}

static void write_json(const struct lls_log *log, const char *time, uint32_t level,
                       const char *where, const char *message)
{
  json_t *line = json_pack("{s:s, s:s, s:s, s:s}", "time", time, "level",
                           level_name(level), "where", where, "message", message);
  if (line == NULL) /* the message is not UTF-8 */
    write_text(log, time, level, where, message);
  else
    write_object(log, line);
}

/* Returns the field's value; NULL if its text is not UTF-8: the field is then omitted. */
static json_t *field_json(const struct lls_log_field *field)
{
  if (field->text != NULL)
    return json_string(field->text);
  bool whole = field->number == floor(field->number);
  return whole ? json_integer((json_int_t)field->number) : json_real(field->number);
}

static void write_request_json(const struct lls_log *log, uint32_t level,
                               const char *where, const char *request,
                               const struct lls_log_field *fields, size_t n)
{
  char time[40];
  timestamp(time, sizeof time);
  json_t *line = json_pack("{s:s, s:s, s:s, s:s}", "time", time, "level",
                           level_name(level), "where", where, "request", request);
  for (size_t i = 0; i < n; i++)
    json_object_set_new(line, fields[i].name, field_json(&fields[i]));
  if (line != NULL)
    write_object(log, line);
}

/* Writes a line that is only a message, without fields. */
static void write_line(const struct lls_log *log, uint32_t level, const char *where,
                       const char *message)
{
  char time[40];
  if (log->format == LLS_LOG_JOURNAL) { /* the journal adds the time */
    char record[LLS_JOURNAL_MAX];
    emit(log, record, lls_journal_record(level, where, message, record));
    return;
  }
  timestamp(time, sizeof time);
  if (log->format == LLS_LOG_JSON)
    write_json(log, time, level, where, message);
  else
    write_text(log, time, level, where, message);
}

static void write_request_text(const struct lls_log *log, uint32_t level,
                               const char *where, const char *request,
                               const struct lls_log_field *fields, size_t n)
{
  struct lls_text message = {0};
  lls_text_printf(&message, "%s:", request);
  for (size_t i = 0; i < n; i++) {
    const char *comma = i > 0 ? "," : "";
    if (fields[i].text != NULL)
      lls_text_printf(&message, "%s %s %s", comma, fields[i].name, fields[i].text);
    else
      lls_text_printf(&message, "%s %s %.10g", comma, fields[i].name, fields[i].number);
  }
  if (!message.failed)
    write_line(log, level, where, message.data);
  lls_text_free(&message);
}

static void say_lost(const struct lls_log *log)
{
  char message[96];
  uint64_t lost = log->sink != NULL ? lls_log_sink_lost(log->sink) : 0;
  if (lost == 0)
    return;
  snprintf(message, sizeof message, "%llu lines are missing here: the log was not read",
           (unsigned long long)lost);
  write_line(log, LLS_LOG_WARNING, "log", message);
}

bool lls_log_flush(const struct lls_log *log)
{
  if (log == NULL || log->sink == NULL)
    return false;
  bool left = lls_log_sink_flush(log->sink);
  say_lost(log);
  return left;
}

#define PLACE_MAX 128

/* Returns "MODEL/where" if the process serves one model of several, else `where`. */
static const char *place_of(const struct lls_log *log, const char *where,
                            char named[PLACE_MAX])
{
  if (log->model[0] == '\0')
    return where;
  snprintf(named, PLACE_MAX, "%s/%s", log->model, where);
  return named;
}

void lls_log_request(const struct lls_log *log, uint32_t level, const char *where,
                     const char *request, const struct lls_log_field *fields, size_t n)
{
  char named[PLACE_MAX];
  if (log == NULL || !wanted(log, level))
    return;
  where = place_of(log, where, named);
  say_lost(log);
  if (log->format == LLS_LOG_JSON)
    write_request_json(log, level, where, request, fields, n);
  else
    write_request_text(log, level, where, request, fields, n);
}

void lls_log(const struct lls_log *log, uint32_t level, const char *where,
             const char *format, ...)
{
  if (log == NULL || !wanted(log, level))
    return;
  char message[LINE_MAX_BYTES - PLACE_MAX - 128], named[PLACE_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  say_lost(log);
  write_line(log, level, place_of(log, where, named), message);
}
