/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that sends spans to a collector; see exporter.h. A POST that fails for a
 * reason that may pass (no connection, 429, 502, 503, 504: OTLP's list) is repeated TRIES
 * times. OTEL_EXPORTER_OTLP_HEADERS adds headers, as OpenTelemetry says: NAME=VALUE,...,
 * where a byte of a value may be %XX, such as the blank of "Basic%20...".
 */
#include "config.h"

#include "core/traces/exporter.h"

#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TRIES       3
#define TIMEOUT_S   10L
#define BACKOFF_MS  500 /* twice as long after each try */
#define MOST_FRAME  (64u << 20)
#define MOST_HEADER 1024
#define MOST_FILES  1024

struct process {
  int socket;
  CURL *easy;
  char url[2048];
  char why[CURL_ERROR_SIZE];
};

static bool read_all(int fd, void *data, size_t n)
{
  for (size_t at = 0; at < n;) {
    ssize_t got = recv(fd, (char *)data + at, n - at, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    at += (size_t)got;
  }
  return true;
}

/* Appends the standard's path to a URL that has none. */
static void complete_url(const char *url, char *out, size_t size)
{
  const char *host = strstr(url, "://");
  const char *path = host != NULL ? strchr(host + 3, '/') : NULL;
  bool bare = path == NULL || path[1] == '\0';
  snprintf(out, size, "%.*s%s", (int)(path != NULL && bare ? path - url : 1024), url,
           bare ? "/v1/traces" : "");
}

/* Decodes %XX in the n bytes of a value, as W3C's baggage has them. */
static void decode(const char *text, size_t n, char *out, size_t size)
{
  size_t length = 0;
  for (size_t i = 0; i < n && length < size - 1; i++) {
    const char digits[3] = {i + 2 < n ? text[i + 1] : '\0',
                            i + 2 < n ? text[i + 2] : '\0'};
    bool encoded = text[i] == '%' && strspn(digits, "0123456789abcdefABCDEF") == 2;
    out[length++] = encoded ? (char)strtol(digits, NULL, 16) : text[i];
    i += encoded ? 2 : 0;
  }
  out[length] = '\0';
}

static struct curl_slist *headers_of_environment(void)
{
  char header[MOST_HEADER], value[MOST_HEADER];
  const char *at = getenv("OTEL_EXPORTER_OTLP_HEADERS");
  struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
  while (at != NULL && *at != '\0') {
    at += strspn(at, " ");
    size_t n = strcspn(at, ",");
    const char *equals = memchr(at, '=', n);
    if (equals != NULL) {
      decode(equals + 1, (size_t)(at + n - equals - 1), value, sizeof value);
      value[strcspn(value, "\r\n")] = '\0';
      snprintf(header, sizeof header, "%.*s: %.*s", (int)(equals - at), at,
               (int)strlen(value), value);
      list = curl_slist_append(list, header);
    }
    at += n + (at[n] == ',');
  }
  return list;
}

static size_t ignore(char *data, size_t size, size_t n, void *context)
{
  (void)data, (void)context;
  return size * n;
}

static bool may_pass(CURLcode code, long status)
{
  return code != CURLE_OK || status == 429 || status == 502 || status == 503 ||
         status == 504;
}

/* Returns true if the collector has taken the body; else why has the reason. */
static bool post(struct process *p, const char *body, size_t n, char *why, size_t size)
{
  long status = 0;
  CURLcode code = CURLE_OK;
  curl_easy_setopt(p->easy, CURLOPT_POSTFIELDS, body);
  curl_easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
  for (int try = 0; try < TRIES; try++) {
    long ms = try > 0 ? BACKOFF_MS << (try - 1) : 0;
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000},
              NULL);
    p->why[0] = '\0';
    code = curl_easy_perform(p->easy);
    curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status >= 200 && status < 300)
      return true;
    if (!may_pass(code, status))
      break;
  }
  if (code != CURLE_OK)
    snprintf(why, size, "%.60s: %.50s", p->url,
             p->why[0] != '\0' ? p->why : curl_easy_strerror(code));
  else
    snprintf(why, size, "%.90s answers %ld", p->url, status);
  return false;
}

/* Counts spans without parsing: each has one traceId. */
static uint32_t count_spans(const char *body)
{
  uint32_t n = 0;
  for (const char *at = body; (at = strstr(at, "\"traceId\":")) != NULL; at++)
    n++;
  return n;
}

static void run(struct process *p)
{
  uint32_t n;
  while (read_all(p->socket, &n, sizeof n) && n < MOST_FRAME) {
    char *body = malloc((size_t)n + 1);
    if (body == NULL || !read_all(p->socket, body, n)) {
      free(body);
      return;
    }
    body[n] = '\0';
    struct lls_export_report report = {.n = count_spans(body)};
    if (!post(p, body, n, report.why, sizeof report.why))
      report.failed = report.n;
    free(body);
    send(p->socket, &report, sizeof report, MSG_NOSIGNAL);
  }
}

/* The child: ends with the server, which closes the socket, and not by a signal that the
 * terminal or the service manager sends to both. */
static _Noreturn void child(int socket, const char *url)
{
  struct process p = {.socket = socket};
  for (int fd = 3; fd < MOST_FILES; fd++) /* such as listening sockets of systemd */
    if (fd != socket)
      close(fd);
  complete_url(url, p.url, sizeof p.url);
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  prctl(PR_SET_NAME, "llmserve-traces");
  p.easy = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? curl_easy_init() : NULL;
  if (p.easy != NULL) {
    struct curl_slist *headers = headers_of_environment();
    curl_easy_setopt(p.easy, CURLOPT_URL, p.url);
    curl_easy_setopt(p.easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(p.easy, CURLOPT_TIMEOUT, TIMEOUT_S);
    curl_easy_setopt(p.easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(p.easy, CURLOPT_ERRORBUFFER, p.why);
    curl_easy_setopt(p.easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(p.easy, CURLOPT_USERAGENT, "llmserve/" PACKAGE_VERSION);
    run(&p);
    curl_easy_cleanup(p.easy);
    curl_slist_free_all(headers);
  }
  _exit(p.easy != NULL ? EXIT_SUCCESS : EXIT_FAILURE);
}

int lls_export_process_start(const char *url, int *out, pid_t *pid, struct lls_error *err)
{
  int ends[2];
  if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
    return lls_fail(err, -EINVAL,
                    "[server] traces: expected a URL such as http://127.0.0.1:4318, not "
                    "'%.200s'",
                    url);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
    return lls_fail(err, -errno, "[server] traces: %s", strerror(errno));
  *pid = fork();
  if (*pid == 0) {
    close(ends[0]);
    child(ends[1], url);
  }
  int rc = *pid < 0 ? -errno : 0;
  close(ends[1]);
  *out = ends[0];
  if (rc == 0)
    return 0;
  close(ends[0]);
  return lls_fail(err, rc, "[server] traces: cannot fork: %s", strerror(-rc));
}
