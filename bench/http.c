/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP front end alone, with an engine which costs nothing (t/api/fake_server). Five
 * figures, each beside its limit:
 *
 *   streams   CPU of the server per streamed token, 1,000 clients at once    <= 20 us
 *   idle      memory of an idle keep-alive connection, with 10,000 of them   <= 10 KB
 *   ttfb      time to the first byte of an answer, 500 requests/s, p99       <=  2 ms
 *   viewers   for each viewer of /admin/events, with 1,000 running requests:
 *             the server's share of a core                                   <=  1 %
 *             bytes sent                                                     <= 50 KB/s
 *
 * Usage: bench/http [streams|idle|ttfb|viewers]... in a build folder, after
 * make t/api/fake_server (which make check includes).
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "bench/bench.h"

#define SERVER LLS_BUILDDIR "/t/api/fake_server"
#define MODEL  LLS_SRCDIR "/t/data/models/stories260K"

static void die(const char *what)
{
  fprintf(stderr, "bench/http: %s\n", what);
  exit(1);
}

/* ---- the server ----------------------------------------------------------------- */

struct target {
  pid_t pid;
  struct sockaddr_in address;
};

static struct target start(const char *period)
{
  struct target t;
  int out[2];
  char line[64] = "";
  if (access(SERVER, X_OK) != 0 || pipe(out) != 0)
    die(SERVER ": not there; make t/api/fake_server");
  t.pid = fork();
  if (t.pid == 0) {
    dup2(out[1], 1);
    if (freopen("/dev/null", "w", stderr) != NULL)
      execl(SERVER, SERVER, MODEL, period, "requests=100000", "context=100000",
            "connections=100000", (char *)NULL);
    _exit(127);
  }
  close(out[1]);
  FILE *from = fdopen(out[0], "r");
  char *colon =
      from != NULL && fgets(line, sizeof line, from) != NULL ? strchr(line, ':') : NULL;
  if (colon == NULL)
    die("the server does not start");
  fclose(from);
  *colon = '\0';
  uv_ip4_addr(line, atoi(colon + 1), &t.address);
  return t;
}

static void stop(const struct target *t)
{
  int status;
  kill(t->pid, SIGTERM);
  waitpid(t->pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    die("the server did not end well");
}

/* Returns the CPU seconds which the server has used. */
static double cpu_seconds(const struct target *t)
{
  char path[64];
  unsigned long user = 0, kernel = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)t->pid);
  FILE *file = fopen(path, "r");
  if (file == NULL ||
      fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
             &user, &kernel) != 2)
    die("cannot read the server's CPU time");
  fclose(file);
  return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static double resident_bytes(const struct target *t)
{
  char path[64];
  unsigned long total, resident = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", (int)t->pid);
  FILE *file = fopen(path, "r");
  if (file == NULL || fscanf(file, "%lu %lu", &total, &resident) != 2)
    die("cannot read the server's memory");
  fclose(file);
  return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* ---- clients -------------------------------------------------------------------- */

struct client {
  uv_tcp_t tcp;
  uv_connect_t connect;
  uv_write_t write;
  struct clients *all;
  const char *request;
  uint64_t sent_ns;
  unsigned events; /* events still expected; 0: read until the answer ends */
  char last;
  bool answered;
};

struct clients {
  uv_loop_t uv;
  struct client *list; /* (n) clients */
  unsigned n, done, failed;
  uint64_t tokens, bytes;
  double *times; /* (n) seconds to the first byte */
  bool keep;     /* connections stay open after their answer */
  char buffer[65536];
};

static void end(struct client *c, bool failed)
{
  if (uv_is_closing((uv_handle_t *)&c->tcp))
    return;
  c->all->failed += failed;
  c->all->done++;
  if (failed || !c->all->keep)
    uv_close((uv_handle_t *)&c->tcp, NULL);
  if (c->all->keep && c->all->done == c->all->n)
    uv_stop(&c->all->uv);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
  (void)suggested;
  struct client *c = handle->data;
  *buffer = uv_buf_init(c->all->buffer, sizeof c->all->buffer);
}

/* Counts events: each ends with an empty line. Every other empty line has a '\r'. */
static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
  struct client *c = stream->data;
  if (length < 0) {
    end(c, true);
    return;
  }
  c->all->bytes += (uint64_t)length;
  if (!c->answered) {
    c->answered = true;
    c->all->times[c - c->all->list] = (double)(uv_hrtime() - c->sent_ns) / 1e9;
    if (length < 12 || memcmp(buffer->base, "HTTP/1.1 200", 12) != 0) {
      end(c, true);
      return;
    }
  }
  if (c->events == 0) { /* a short answer arrives in one piece */
    end(c, false);
    return;
  }
  for (ssize_t i = 0; i < length && c->events > 0; i++) {
    if (buffer->base[i] == '\n' && c->last == '\n') {
      c->events--;
      c->all->tokens++;
    }
    c->last = buffer->base[i];
  }
  if (c->events == 0)
    end(c, false);
}

static void on_connect(uv_connect_t *connect, int status)
{
  struct client *c = connect->handle->data;
  if (status != 0) {
    end(c, true);
    return;
  }
  uv_buf_t request = uv_buf_init((char *)c->request, (unsigned)strlen(c->request));
  c->sent_ns = uv_hrtime();
  uv_read_start((uv_stream_t *)&c->tcp, give_buffer, on_read);
  uv_write(&c->write, (uv_stream_t *)&c->tcp, &request, 1, NULL);
}

static void launch(struct clients *all, unsigned i, const struct target *t,
                   const char *request, unsigned events)
{
  struct client *c = &all->list[i];
  *c = (struct client){.all = all, .request = request, .events = events};
  uv_tcp_init(&all->uv, &c->tcp);
  uv_tcp_nodelay(&c->tcp, 1);
  c->tcp.data = c;
  if (uv_tcp_connect(&c->connect, &c->tcp, (const struct sockaddr *)&t->address,
                     on_connect) != 0)
    end(c, true);
}

static void make_clients(struct clients *all, unsigned n, bool keep)
{
  *all = (struct clients){.n = n, .keep = keep};
  all->list = calloc(n, sizeof *all->list);
  all->times = calloc(n, sizeof *all->times);
  if (all->list == NULL || all->times == NULL)
    die("out of memory");
  uv_loop_init(&all->uv);
}

static void close_handle(uv_handle_t *handle, void *context)
{
  (void)context;
  if (!uv_is_closing(handle))
    uv_close(handle, NULL);
}

static void free_clients(struct clients *all)
{
  uv_walk(&all->uv, close_handle, NULL);
  uv_run(&all->uv, UV_RUN_DEFAULT);
  uv_loop_close(&all->uv);
  free(all->list);
  free(all->times);
}

/* Returns the bytes of a POST with this body and request id. */
static const char *post_as(const char *id, const char *body)
{
  static char text[512];
  snprintf(text, sizeof text,
           "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n"
           "Content-Length: %zu\r\n\r\n%s",
           id, strlen(body), body);
  return text;
}

static const char *post(const char *body)
{
  return post_as("bench", body);
}

static bool report(const char *name, double value, const char *unit, double limit,
                   unsigned failed)
{
  bool good = value <= limit && failed == 0;
  printf("%-8s %8.2f %s, limit %g, ratio %.2f, %u errors%s\n", name, value, unit, limit,
         value / limit, failed, good ? "" : "  <-- too much");
  return good;
}

/* ---- the parts ------------------------------------------------------------------ */

/* Each client gets a token every 20 ms: 50,000 tokens a second in all, if the CPU
 * suffices. */
static bool streams(void)
{
  enum { CLIENTS = 1000, TOKENS = 200 };
  struct clients all;
  struct target t = start("period=20");
  make_clients(&all, CLIENTS, false);
  const char *request =
      post("{\"prompt\":[1,403,407],\"max_tokens\":200,\"stream\":true}");
  double before = cpu_seconds(&t);
  uint64_t started = uv_hrtime();
  for (unsigned i = 0; i < CLIENTS; i++)
    launch(&all, i, &t, request, TOKENS + 1); /* the tokens, and [DONE] */
  uv_run(&all.uv, UV_RUN_DEFAULT);
  double took = (double)(uv_hrtime() - started) / 1e9;
  double cpu = (cpu_seconds(&t) - before) * 1e6 / (CLIENTS * (double)TOKENS);
  bool good = report("streams", cpu, "us of CPU a token", 20, all.failed);
  printf("         %d clients, %.0f tokens/s\n", CLIENTS, (double)all.tokens / took);
  free_clients(&all);
  stop(&t);
  return good;
}

static bool idle(void)
{
  enum { CLIENTS = 10000 };
  struct clients all;
  struct target t = start("period=20");
  double before = resident_bytes(&t);
  make_clients(&all, CLIENTS, true);
  for (unsigned i = 0; i < CLIENTS; i += 500) { /* the server's backlog is limited */
    all.n = i + 500;
    for (unsigned k = i; k < i + 500; k++)
      launch(&all, k, &t, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n", 0);
    uv_run(&all.uv, UV_RUN_DEFAULT);
  }
  double each = (resident_bytes(&t) - before) / CLIENTS / 1000;
  bool good = report("idle", each, "KB a connection", 10, all.failed);
  printf("         %d connections, each had an answer and is open\n", CLIENTS);
  free_clients(&all);
  stop(&t);
  return good;
}

struct schedule {
  struct clients *all;
  const struct target *target;
  const char *request;
  uint64_t started_ns;
  unsigned next, per_second;
};

/* Sends the requests which are due. The timer's resolution of a millisecond is no
 * error, since each request is timed by itself. */
static void on_tick(uv_timer_t *timer)
{
  struct schedule *s = timer->data;
  double now = (double)(uv_hrtime() - s->started_ns) / 1e9;
  while (s->next < s->all->n && s->next / (double)s->per_second <= now)
    launch(s->all, s->next++, s->target, s->request, 2);
  if (s->next == s->all->n)
    uv_close((uv_handle_t *)timer, NULL);
}

/* The engine answers in the same iteration of the event loop, so its time is not
 * measured. */
static bool ttfb(void)
{
  enum { CLIENTS = 5000, PER_SECOND = 500 };
  struct clients all;
  struct target t = start("period=0");
  uv_timer_t timer;
  make_clients(&all, CLIENTS, false);
  struct schedule s = {.all = &all,
                       .target = &t,
                       .request =
                           post("{\"prompt\":\"Once upon a time\",\"max_tokens\":1,"
                                "\"stream\":true}"),
                       .started_ns = uv_hrtime(),
                       .per_second = PER_SECOND};
  uv_timer_init(&all.uv, &timer);
  timer.data = &s;
  uv_timer_start(&timer, on_tick, 0, 1);
  uv_run(&all.uv, UV_RUN_DEFAULT);
  qsort(all.times, CLIENTS, sizeof *all.times, bench_compare);
  bool good =
      report("ttfb", all.times[CLIENTS * 99 / 100] * 1e3, "ms p99", 2, all.failed);
  printf("         %d requests, %d a second, p50 %.2f ms, p99.9 %.2f ms\n", CLIENTS,
         PER_SECOND, all.times[CLIENTS / 2] * 1e3, all.times[CLIENTS / 1000 * 999] * 1e3);
  free_clients(&all);
  stop(&t);
  return good;
}

static void on_time(uv_timer_t *timer)
{
  uv_stop(timer->loop);
  uv_close((uv_handle_t *)timer, NULL);
}

/* Returns the share of a core which the server uses during `seconds`. */
static double cpu_of_seconds(struct clients *all, const struct target *t,
                             unsigned seconds)
{
  uv_timer_t timer;
  double before = cpu_seconds(t);
  uv_timer_init(&all->uv, &timer);
  uv_timer_start(&timer, on_time, seconds * 1000, 0);
  uv_run(&all->uv, UV_RUN_DEFAULT);
  uv_run(&all->uv, UV_RUN_NOWAIT); /* closes the timer */
  return cpu_seconds(t) - before;
}

/* The requests have had one token and get no other, so that only viewers cost time. */
static bool viewers(void)
{
  enum { CLIENTS = 1000, SECONDS = 20, VIEWERS = 8 };
  struct clients all;
  struct target t = start("period=20");
  make_clients(&all, CLIENTS + VIEWERS, true);
  all.n = CLIENTS;
  for (unsigned i = 0; i < CLIENTS; i++)
    launch(&all, i, &t,
           post_as("pause-0123456789abcdef", "{\"prompt\":[1,403],\"stream\":true}"), 1);
  uv_run(&all.uv, UV_RUN_DEFAULT);
  double alone = cpu_of_seconds(&all, &t, SECONDS);
  all.bytes = 0;
  launch(&all, CLIENTS, &t, "GET /admin/events HTTP/1.1\r\nHost: x\r\n\r\n", UINT_MAX);
  double one = cpu_of_seconds(&all, &t, SECONDS);
  double sent = (double)all.bytes / SECONDS / 1000;
  for (unsigned i = 1; i < VIEWERS; i++)
    launch(&all, CLIENTS + i, &t, "GET /admin/events HTTP/1.1\r\nHost: x\r\n\r\n",
           UINT_MAX);
  double eight = cpu_of_seconds(&all, &t, SECONDS);
  bool good =
      report("viewers", (one - alone) / SECONDS * 100, "% of a core", 1, all.failed);
  good = report("", sent, "KB/s", 50, all.failed) && good;
  printf("         %d requests, nobody looks: %.2f %%, %d viewers: %.2f %%\n", CLIENTS,
         alone / SECONDS * 100, VIEWERS, eight / SECONDS * 100);
  free_clients(&all);
  stop(&t);
  return good;
}

int main(int argc, char **argv)
{
  static const struct {
    const char *name;
    bool (*run)(void);
  } parts[] = {
      {"streams", streams}, {"idle", idle}, {"ttfb", ttfb}, {"viewers", viewers}};
  struct rlimit files;
  bool good = true;
  signal(SIGPIPE, SIG_IGN);
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    bool wanted = argc == 1;
    for (int k = 1; k < argc; k++)
      wanted = wanted || strcmp(argv[k], parts[i].name) == 0;
    if (wanted)
      good = parts[i].run() && good;
  }
  return good ? 0 : 1;
}
