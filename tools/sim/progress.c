/* SPDX-License-Identifier: Apache-2.0 */
/* See progress.h. */
#include "tools/sim/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BAR 30 /* characters */

static int64_t real_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void lls_progress_begin(struct lls_progress *p, bool wanted)
{
  *p =
      (struct lls_progress){.on = wanted && isatty(STDERR_FILENO), .began_ns = real_ns()};
}

void lls_progress_show(struct lls_progress *p, uint64_t calls, uint32_t done,
                       uint32_t total, double virtual_s)
{
  const int64_t between_ns = 100000000;
  if (!p->on || calls % 256 != 0 || total == 0)
    return;
  int64_t now_ns = real_ns();
  if (now_ns - p->shown_ns < between_ns)
    return;
  p->shown_ns = now_ns;
  double elapsed_s = (double)(now_ns - p->began_ns) * 1e-9;
  double left_s = done > 0 ? elapsed_s * (total - done) / done : 0;
  int full = (int)((uint64_t)BAR * done / total);
  fprintf(stderr, "\r[%.*s%*s] %u of %u requests, %.0f s simulated, %.0f s left\033[K",
          full, "==============================", BAR - full, "", done, total, virtual_s,
          left_s);
}

void lls_progress_end(struct lls_progress *p)
{
  if (p->on)
    fputs("\r\033[K", stderr);
}
