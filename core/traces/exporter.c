/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "core/traces/exporter.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/text.h"

#define WAIT_NS     1000000000 /* longest that a span waits for others */
#define MOST_SPANS  1024       /* sent together */
#define MOST_UNSENT (8u << 20) /* bytes for a collector that is slow */
#define END_MS      3000
#define LOG_NS      60000000000 /* between two lines about failures */

struct lls_exporter {
  int socket;
  pid_t pid;
  const struct lls_log *log;
  json_t *spans; /* an array of those that wait */
  int64_t since_ns, logged_ns;
  struct lls_text unsent; /* frames: their length in 4 bytes, and JSON */
  struct lls_export_counts counts;
  struct lls_export_report report; /* read so far: n_read bytes */
  size_t n_read;
};

struct lls_exporter *lls_exporter_create(int socket, pid_t pid, const struct lls_log *log)
{
  struct lls_exporter *e = calloc(1, sizeof *e);
  if (e == NULL)
    return NULL;
  *e = (struct lls_exporter){.socket = socket, .pid = pid, .log = log};
  e->spans = json_array();
  if (e->spans != NULL)
    return e;
  free(e);
  return NULL;
}

void lls_exporter_count(const struct lls_exporter *e, struct lls_export_counts *out)
{
  *out = e->counts;
}

/* ---- sending --------------------------------------------------------------- */

static json_t *attribute(const char *key, const char *value)
{
  return json_pack("{s:s, s:{s:s}}", "key", key, "value", "stringValue", value);
}

/* Makes a frame of the spans that wait. */
static void pack(struct lls_exporter *e)
{
  const char *name = getenv("OTEL_SERVICE_NAME");
  size_t n = json_array_size(e->spans);
  json_t *request = json_pack(
      "{s:[{s:{s:[o, o]}, s:[{s:{s:s, s:s}, s:O}]}]}", "resourceSpans", "resource",
      "attributes",
      attribute("service.name", name != NULL && *name != '\0' ? name : "llmserve"),
      attribute("service.version", PACKAGE_VERSION), "scopeSpans", "scope", "name",
      "llmserve", "version", PACKAGE_VERSION, "spans", e->spans);
  char *text = request != NULL ? json_dumps(request, JSON_COMPACT) : NULL;
  uint32_t length = text != NULL ? (uint32_t)strlen(text) : 0;
  /* a frame is added whole or not at all: the other end could not read what follows */
  if (length > 0 && lls_text_reserve(&e->unsent, sizeof length + length)) {
    lls_text_append(&e->unsent, &length, sizeof length);
    lls_text_append(&e->unsent, text, length);
  } else {
    e->counts.dropped += n;
  }
  free(text);
  json_decref(request);
  json_array_clear(e->spans);
}

void lls_exporter_add(struct lls_exporter *e, json_t *span)
{
  if (json_array_size(e->spans) >= MOST_SPANS)
    pack(e); /* a busy server finishes more requests between two ticks */
  if (e->unsent.length > MOST_UNSENT || json_array_append(e->spans, span) < 0)
    e->counts.dropped++;
  json_decref(span);
}

/* Gives the process what it takes now. */
static void send_some(struct lls_exporter *e)
{
  while (e->unsent.length > 0 && e->socket >= 0) {
    ssize_t n =
        send(e->socket, e->unsent.data, e->unsent.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
      return;
    lls_text_consume(&e->unsent, (size_t)n);
  }
}

static void take_report(struct lls_exporter *e, int64_t now_ns)
{
  const struct lls_export_report *r = &e->report;
  e->counts.sent += r->n - r->failed;
  e->counts.failed += r->failed;
  if (r->failed == 0 || (e->logged_ns != 0 && now_ns - e->logged_ns < LOG_NS))
    return;
  e->logged_ns = now_ns;
  lls_log(e->log, LLS_LOG_WARNING, "traces", "%u spans were not taken: %.119s", r->failed,
          r->why);
}

static void read_reports(struct lls_exporter *e, int64_t now_ns)
{
  ssize_t n = 1;
  while (n > 0 && e->socket >= 0) {
    n = recv(e->socket, (char *)&e->report + e->n_read, sizeof e->report - e->n_read,
             MSG_DONTWAIT);
    if (n == 0) { /* the process has ended */
      lls_log(e->log, LLS_LOG_ERROR, "traces",
              "the process that exports traces has ended: there are none any more");
      close(e->socket);
      e->socket = -1;
    }
    e->n_read += n > 0 ? (size_t)n : 0;
    if (e->n_read == sizeof e->report) {
      e->n_read = 0;
      take_report(e, now_ns);
    }
  }
}

void lls_exporter_tick(struct lls_exporter *e, int64_t now_ns)
{
  size_t n = json_array_size(e->spans);
  if (n == 0)
    e->since_ns = now_ns;
  if (n >= MOST_SPANS / 2 || now_ns - e->since_ns >= WAIT_NS) {
    if (n > 0)
      pack(e);
    e->since_ns = now_ns;
  }
  send_some(e);
  read_reports(e, now_ns);
}

void lls_exporter_destroy(struct lls_exporter *e)
{
  if (e == NULL)
    return;
  if (json_array_size(e->spans) > 0)
    pack(e);
  struct pollfd fd = {.fd = e->socket, .events = POLLOUT};
  for (int ms = 0; e->unsent.length > 0 && e->socket >= 0 && ms < END_MS; ms += 10) {
    poll(&fd, 1, 10);
    send_some(e);
  }
  if (e->socket >= 0)
    shutdown(e->socket, SHUT_WR);
  int ended = 0;
  for (int ms = 0; ended == 0 && ms < END_MS; ms += 10) {
    ended = waitpid(e->pid, NULL, WNOHANG);
    if (ended == 0)
      poll(NULL, 0, 10);
  }
  if (ended == 0) {
    kill(e->pid, SIGKILL);
    waitpid(e->pid, NULL, 0);
  }
  if (e->socket >= 0)
    close(e->socket);
  lls_text_free(&e->unsent);
  json_decref(e->spans);
  free(e);
}
