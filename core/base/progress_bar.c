/* SPDX-License-Identifier: Apache-2.0 */
/* See progress_bar.h. */
#include "core/base/progress_bar.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BAR         24 /* characters */
#define TERMINAL_NS 100000000ll
#define LINE_NS     10000000000ll

static int64_t real_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void lls_progress_begin(struct lls_progress *p, bool wanted, const char *who)
{
  int64_t now_ns = real_ns();
  *p = (struct lls_progress){.who = who,
                             .on = wanted,
                             .terminal = isatty(STDERR_FILENO) == 1,
                             .began_ns = now_ns,
                             .shown_ns = now_ns};
}

static void put_left(FILE *out, double seconds)
{
  if (seconds >= 7200)
    fprintf(out, ", %.1f h left", seconds / 3600);
  else if (seconds >= 120)
    fprintf(out, ", %.0f min left", seconds / 60);
  else
    fprintf(out, ", %.0f s left", seconds);
}

/* "40 %, 1200 of 3000 requests, 340/s, 5 s left, more" */
static void put_state(FILE *out, const struct lls_progress_state *s, double elapsed_s)
{
  double rate = elapsed_s > 0 ? s->n / elapsed_s : 0;
  fprintf(out, "%.0f %%, %.0f", 100 * s->share, s->n);
  if (s->total > 0)
    fprintf(out, " of %.0f", s->total);
  fprintf(out, " %s, %.*f/s", s->unit, rate < 10 ? 1 : 0, rate);
  if (s->share > 0)
    put_left(out, elapsed_s * (1 - s->share) / s->share);
  if (s->more != NULL && s->more[0] != '\0')
    fprintf(out, ", %s", s->more);
}

void lls_progress_show(struct lls_progress *p, const struct lls_progress_state *s)
{
  int64_t now_ns = p->on ? real_ns() : 0;
  if (!p->on || now_ns - p->shown_ns < (p->terminal ? TERMINAL_NS : LINE_NS))
    return;
  p->shown_ns = now_ns;
  double elapsed_s = (double)(now_ns - p->began_ns) * 1e-9;
  int full = s->share < 1 ? (int)(BAR * s->share) : BAR;
  char text[512];
  /* builds the whole text first, so that one write prints it */
  FILE *out = fmemopen(text, sizeof text, "w");
  if (out == NULL)
    return;
  put_state(out, s, elapsed_s);
  fclose(out);
  if (p->terminal)
    fprintf(stderr, "\r[%.*s%*s] %s\033[K", full, "========================", BAR - full,
            "", text);
  else if (p->line != NULL)
    p->line(p->context, text);
  else
    fprintf(stderr, "%s: %s\n", p->who, text);
}

void lls_progress_count(struct lls_progress *p, size_t n, size_t total, const char *unit,
                        const char *more)
{
  const struct lls_progress_state state = {.share =
                                               total > 0 ? (double)n / (double)total : 0,
                                           .n = (double)n,
                                           .total = (double)total,
                                           .unit = unit,
                                           .more = more};
  lls_progress_show(p, &state);
}

static void clear(const struct lls_progress *p)
{
  if (p->on && p->terminal)
    fputs("\r\033[K", stderr);
}

/* After the last weight the bar's line is cleared for later output. */
bool lls_progress_weights(void *progress, size_t done, size_t total)
{
  if (done < total)
    lls_progress_count(progress, done >> 20, total >> 20, "MiB of weights", NULL);
  else
    clear(progress);
  return true;
}

void lls_progress_end(struct lls_progress *p)
{
  clear(p);
  p->on = false;
}

bool lls_terminal_colours(int fd)
{
  const char *no = getenv("NO_COLOR");
  return isatty(fd) == 1 && (no == NULL || no[0] == '\0');
}
