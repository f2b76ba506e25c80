/* SPDX-License-Identifier: Apache-2.0 */
#include "core/api/access_log.h"

#include <math.h>
#include <string.h>

#include "core/api/api.h"
#include "core/api/routes.h"
#include "text/base/utf8.h"

#define MAX_FIELDS 8
#define CROWD_S    60

/* Returns true for a health probe answered with 503: the expected answer of a server
 * that is not ready, not a client's error. */
static bool is_probed(const struct lls_http_exchange *exchange)
{
  const char *path = exchange->request.path;
  return exchange->status == 503 && path != NULL &&
         (lls_route_is(path, "/health") || lls_route_is(path, "/ready") ||
          lls_route_is(path, "/live"));
}

static bool is_change(const struct lls_http_exchange *exchange)
{
  static const char admin[] = "/admin/";
  const char *path = exchange->request.path, *method = exchange->request.method;
  return path != NULL && method != NULL && strcmp(method, "POST") == 0 &&
         strncmp(path, admin, sizeof admin - 1) == 0;
}

static bool is_wanted(const struct lls_http_exchange *exchange, uint32_t choice)
{
  if (choice == LLS_ACCESS_LOG_ALL)
    return true;
  if (choice == LLS_ACCESS_LOG_OFF || exchange->logged)
    return false;
  return is_change(exchange) || (exchange->status >= 400 && !is_probed(exchange));
}

static bool has_room(struct lls_access_log *access)
{
  int64_t second = (int64_t)(uv_hrtime() / 1000000000);
  if (second != access->second) {
    access->second = second;
    access->lines = 0;
  }
  if (access->lines < LLS_ACCESS_LINES) {
    access->lines++;
    return true;
  }
  access->unsaid++;
  return false;
}

static void say_unsaid(struct lls_access_log *access, const struct lls_log *log)
{
  if (access->unsaid > 0)
    lls_log(log, LLS_LOG_INFO, "http", "%llu more requests were refused, too many to log",
            (unsigned long long)access->unsaid);
  access->unsaid = 0;
}

/* Adds a field whose text may come from a client; the caller frees *repaired. */
static void add_text(struct lls_log_field *fields, size_t *n, const char *name,
                     const char *text, struct lls_bytes *repaired)
{
  if (text == NULL || text[0] == '\0')
    return;
  lls_utf8_repair(text, strlen(text) + 1, repaired);
  if (repaired->data != NULL)
    fields[(*n)++] = (struct lls_log_field){.name = name, .text = repaired->data};
}

static void write_line(const struct lls_log *log, struct lls_http_exchange *exchange,
                       double took_s)
{
  const struct lls_http_request *request = &exchange->request;
  struct lls_log_field fields[MAX_FIELDS] = {
      {.name = "client", .text = lls_http_peer(exchange)},
      {.name = "status", .number = exchange->status},
      {.name = "ms", .number = round(took_s * 1e6) / 1e3},
      {.name = "bytes", .number = (double)exchange->answer_bytes},
  };
  struct lls_bytes path = {0}, why = {0};
  size_t n = 4;
  if (request->method != NULL)
    fields[n++] = (struct lls_log_field){.name = "method", .text = request->method};
  add_text(fields, &n, "path", request->path, &path);
  add_text(fields, &n, "why", exchange->why, &why);
  const char *id = exchange->id[0] != '\0' ? exchange->id : "-";
  lls_log_request(log, LLS_LOG_INFO, "http", id, fields, n);
  lls_bytes_free(&path);
  lls_bytes_free(&why);
}

void lls_access_log_write(struct lls_access_log *access, uint32_t choice,
                          const struct lls_log *log, struct lls_http_exchange *exchange,
                          double took_s)
{
  if (!is_wanted(exchange, choice))
    return;
  if (choice != LLS_ACCESS_LOG_ALL && !has_room(access))
    return;
  say_unsaid(access, log);
  write_line(log, exchange, took_s);
}

void lls_access_log_crowd(struct lls_access_log *access, const struct lls_log *log,
                          uint64_t turned_away, int64_t most)
{
  int64_t second = (int64_t)(uv_hrtime() / 1000000000);
  bool early = access->turned_away > 0 && second - access->crowded_s < CROWD_S;
  if (turned_away == access->turned_away || early)
    return;
  lls_log(
      log, LLS_LOG_WARNING, "http",
      "%llu connections were closed at once: [server] max_connections = %lld are open",
      (unsigned long long)(turned_away - access->turned_away), (long long)most);
  access->turned_away = turned_away;
  access->crowded_s = second;
}
