/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page has rates of the past second, from two readings of /metrics, and the requests
 * that fit below them, from /admin/queues. It is written whole and at once, so that it
 * does not flicker: each line ends by erasing the rest of the old one.
 */
#include "tools/ctl/top.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "core/base/progress_bar.h"
#include "tools/ctl/print.h"
#include "tools/ctl/samples.h"

#define PERIOD_MS     1000
#define BAR_CELLS     30
#define HEADING_LINES 9
#define MOST_COLUMNS  512

/* the alternate screen, without a cursor, long lines cut */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME  "\033[H"
#define ERASE "\033[K" /* the rest of the line */
#define BELOW "\033[J" /* all lines from here */
#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

/* The answers of the server at one time. */
struct reading {
  struct lls_text metrics;
  json_t *status, *queues;
  double at_s;
};

struct screen {
  bool terminal, colours;
  int rows, columns;
  struct termios before;
  struct lls_text page;
};

/* Set by a signal handler: the page ends in order, so that the terminal is restored. */
static volatile sig_atomic_t ended;

static void end(int number)
{
  (void)number;
  ended = 1;
}

/* ---- reading -------------------------------------------------------------------- */

static void forget(struct reading *r)
{
  lls_text_free(&r->metrics);
  json_decref(r->status);
  json_decref(r->queues);
  *r = (struct reading){0};
}

/* Returns 0, or as ctl_top. */
static int read_json(const struct ctl_server *server, const char *path, json_t **out,
                     struct lls_error *err)
{
  int status = ctl_ask(server, "GET", path, out, err);
  if (status < 300)
    return status < 0 ? status : 0;
  const json_t *error = json_object_get(*out, "error");
  const char *why = json_string_value(json_object_get(error, "message"));
  return lls_fail(err, status, "%s", why != NULL ? why : "(no reason given)");
}

static int take(const struct ctl_server *server, struct reading *out,
                struct lls_error *err)
{
  struct timespec now;
  int rc = read_json(server, "/admin/status", &out->status, err);
  if (rc == 0 && json_object_get(out->status, "models") != NULL)
    return lls_fail(err, 400, "this server has several models: name one with --model");
  if (rc == 0)
    rc = read_json(server, "/admin/queues", &out->queues, err);
  if (rc != 0)
    return rc;
  int status = ctl_ask_text(server, "/metrics", &out->metrics, err);
  clock_gettime(CLOCK_MONOTONIC, &now);
  out->at_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  if (status < 300)
    return status < 0 ? status : 0;
  return lls_fail(err, status, "/metrics is refused: %.200s", out->metrics.data);
}

/* ---- drawing -------------------------------------------------------------------- */

static void end_line(struct screen *s)
{
  lls_text_puts(&s->page, s->terminal ? ERASE "\n" : "\n");
}

static double total(const struct reading *r, const char *series, const char *label)
{
  return ctl_sum(r->metrics.data, series, label);
}

static double rate(const struct reading *now, const struct reading *then,
                   const char *series)
{
  double seconds = now->at_s - then->at_s;
  return (total(now, series, NULL) - total(then, series, NULL)) / seconds;
}

/* Returns the growth of one series for each unit of another, NAN without growth. */
static double ratio(const struct reading *now, const struct reading *then,
                    const char *series, const char *of)
{
  double n = total(now, of, NULL) - total(then, of, NULL);
  return n > 0 ? (total(now, series, NULL) - total(then, series, NULL)) / n : NAN;
}

static void put_ms(struct lls_text *page, const char *name, double seconds)
{
  if (isnan(seconds))
    lls_text_printf(page, " %s -", name);
  else
    lls_text_printf(page, " %s %.*f ms", name, seconds < .1 ? 1 : 0, 1e3 * seconds);
}

static void put_percent(struct lls_text *page, const char *name, double part)
{
  if (isnan(part))
    lls_text_printf(page, " %s -", name);
  else
    lls_text_printf(page, " %s %.0f %%", name, 100 * part);
}

static void put_bar(struct lls_text *page, double part)
{
  lls_text_puts(page, "[");
  for (int i = 0; i < BAR_CELLS; i++)
    lls_text_puts(page, i < part * BAR_CELLS ? "#" : "-");
  lls_text_puts(page, "]");
}

static void put_title(struct screen *s, const struct reading *now)
{
  const json_t *plugins = json_object_get(now->status, "plugins");
  lls_text_printf(&s->page, "%sllmserve %s%s  %s  %s ", s->colours ? BOLD : "",
                  ctl_text(now->status, "version"), s->colours ? PLAIN : "",
                  ctl_text(now->status, "state"), ctl_text(now->status, "model"));
  for (size_t i = 0; i < CTL_KINDS; i++)
    lls_text_printf(&s->page, "%s %s", i > 0 ? " +" : "",
                    ctl_text(json_object_get(plugins, ctl_kinds[i]), "name"));
  end_line(s);
}

static void put_load(struct screen *s, const struct reading *now,
                     const struct reading *then)
{
  const json_t *requests = json_object_get(now->status, "requests");
  lls_text_printf(&s->page,
                  "requests   %lld running  %lld waiting  %lld preempted  %.1f ended/s",
                  (long long)json_integer_value(json_object_get(requests, "running")),
                  (long long)json_integer_value(json_object_get(requests, "waiting")),
                  (long long)json_integer_value(json_object_get(requests, "preempted")),
                  rate(now, then, "vllm:request_success_total"));
  end_line(s);
  lls_text_printf(&s->page, "tokens/s   %.0f of prompts  %.0f of answers",
                  rate(now, then, "vllm:prompt_tokens_total"),
                  rate(now, then, "vllm:generation_tokens_total"));
  end_line(s);
  lls_text_printf(&s->page, "steps      %.1f/s ",
                  rate(now, then, "llmserve_steps_total"));
  put_ms(&s->page, "of",
         ratio(now, then, "llmserve_step_seconds_total", "llmserve_steps_total"));
  double tokens = ratio(now, then, "llmserve_step_tokens_total", "llmserve_steps_total");
  if (!isnan(tokens))
    lls_text_printf(&s->page, "  with %.1f tokens", tokens);
  end_line(s);
}

static void put_latency(struct screen *s, const struct reading *now,
                        const struct reading *then)
{
  static const struct {
    const char *name, *histogram;
  } rows[] = {{"first token", "vllm:time_to_first_token_seconds"},
              {"next tokens", "vllm:inter_token_latency_seconds"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *last = then->metrics.data;
    lls_text_printf(&s->page, "%s", rows[i].name);
    put_ms(&s->page, " p50",
           ctl_quantile(now->metrics.data, last, rows[i].histogram, .5));
    put_ms(&s->page, " p99",
           ctl_quantile(now->metrics.data, last, rows[i].histogram, .99));
    end_line(s);
  }
}

static void put_cache(struct screen *s, const struct reading *now,
                      const struct reading *then)
{
  double used = total(now, "vllm:kv_cache_usage_perc", NULL);
  lls_text_puts(&s->page, "cache      ");
  put_bar(&s->page, used);
  lls_text_printf(&s->page, " %.0f %%", 100 * used);
  put_percent(&s->page, "  found of prompts",
              ratio(now, then, "vllm:prefix_cache_hits_total",
                    "vllm:prefix_cache_queries_total"));
  end_line(s);
  double asked = total(now, "llmserve_class_slo_requests_total", NULL);
  lls_text_puts(&s->page, "deadlines ");
  put_percent(&s->page, "kept since the start",
              asked > 0 ? total(now, "llmserve_class_slo_requests_total",
                                "outcome=\"attained\"") /
                              asked
                        : NAN);
  end_line(s);
}

/* Cuts what a client or a plugin wrote to the width of the terminal, without control
 * characters. */
static void put_cut(struct screen *s, const char *text)
{
  char line[MOST_COLUMNS + 1];
  int n = 0, most = s->columns < MOST_COLUMNS ? s->columns : MOST_COLUMNS;
  for (; text[n] != '\0' && n < most; n++)
    line[n] = (unsigned char)text[n] < ' ' || text[n] == 0x7f ? '?' : text[n];
  line[n] = '\0';
  lls_text_puts(&s->page, line);
  end_line(s);
}

static void put_request(struct screen *s, const json_t *r)
{
  struct lls_text line = {0};
  lls_text_printf(&line, "%-9s %-11s %7lld %7lld %7lld %8.1f  %s", ctl_text(r, "state"),
                  ctl_text(r, "class"),
                  (long long)json_integer_value(json_object_get(r, "prompt_tokens")),
                  (long long)json_integer_value(json_object_get(r, "generated_tokens")),
                  (long long)json_integer_value(json_object_get(r, "cached_tokens")),
                  json_number_value(json_object_get(r, "seconds")), ctl_text(r, "label"));
  put_cut(s, line.data != NULL ? line.data : "");
  lls_text_free(&line);
}

static void put_requests(struct screen *s, const struct reading *now)
{
  size_t i, k;
  const json_t *instance, *request;
  int left = s->rows - HEADING_LINES - 1;
  put_cut(s, "state     class        prompt  answer  cached  seconds  request");
  json_array_foreach(json_object_get(now->queues, "instances"), i, instance)
      json_array_foreach(json_object_get(instance, "requests"), k, request)
  {
    if (left-- > 0)
      put_request(s, request);
  }
}

static void draw(struct screen *s, const struct reading *now, const struct reading *then)
{
  s->page.length = 0;
  if (s->terminal)
    lls_text_puts(&s->page, HOME);
  put_title(s, now);
  put_load(s, now, then);
  put_latency(s, now, then);
  put_cache(s, now, then);
  end_line(s);
  put_requests(s, now);
  if (s->terminal)
    lls_text_puts(&s->page, BELOW);
  fwrite(s->page.data, 1, s->page.length, stdout);
  fflush(stdout);
}

/* ---- the terminal --------------------------------------------------------------- */

static void open_screen(struct screen *s)
{
  struct termios raw;
  s->terminal = isatty(STDOUT_FILENO) && tcgetattr(STDIN_FILENO, &s->before) == 0;
  s->colours = s->terminal && lls_terminal_colours(STDOUT_FILENO);
  s->rows = s->columns = MOST_COLUMNS;
  if (!s->terminal)
    return;
  raw = s->before;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  signal(SIGINT, end);
  signal(SIGTERM, end);
  fputs(ENTER, stdout);
}

static void measure(struct screen *s)
{
  struct winsize size;
  if (s->terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) {
    s->rows = size.ws_row;
    s->columns = size.ws_col;
  }
}

static void close_screen(struct screen *s)
{
  if (s->terminal) {
    fputs(LEAVE, stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
  }
  lls_text_free(&s->page);
}

/* Waits for a period. Returns false if the user has ended the program. */
static bool wait_for_next(const struct screen *s)
{
  struct pollfd keys = {.fd = s->terminal ? STDIN_FILENO : -1, .events = POLLIN};
  char key = 0;
  if (poll(&keys, 1, PERIOD_MS) > 0 && read(STDIN_FILENO, &key, 1) < 1)
    return false; /* the terminal is gone */
  return !ended && key != 'q' && key != 'Q';
}

int ctl_top(const struct ctl_server *server, struct lls_error *err)
{
  struct screen screen = {0};
  struct reading then = {0}, now = {0};
  int rc = take(server, &then, err);
  if (rc == 0)
    open_screen(&screen);
  while (rc == 0 && wait_for_next(&screen)) {
    rc = take(server, &now, err);
    if (rc != 0)
      break;
    measure(&screen);
    draw(&screen, &now, &then);
    forget(&then);
    then = now;
    now = (struct reading){0};
    if (!screen.terminal)
      break;
  }
  close_screen(&screen);
  forget(&now);
  forget(&then);
  return rc;
}
