/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finished runs as a picture, by gnuplot, of four panels. Several runs: attainment and
 * latency against the rate, and the CDFs of each series at its highest rate. One run: its
 * timeline (batch, cache, queue) and CDFs. A series is what the file names of runs have
 * in common beside rate and seed; repeats of a rate are averaged.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/sweep/results.h"
#include "tools/sweep/sweep.h"

#define LABEL_SIZE 128
#define CURVES_MAX 12 /* more can't be told apart */

struct run {
  char series[LABEL_SIZE];
  double rate;
  json_t *result;
};

struct runs {
  struct run *runs; /* (n) by series, then rate */
  size_t n;
};

/* ---- runs -------------------------------------------------------------------------- */

static bool is_part(const char *part, size_t length, const char *name)
{
  size_t n = strlen(name);
  return length > n && strncmp(part, name, n) == 0 && part[n] == '=';
}

/* "request-rate=2_config=fcfs.ini_seed=1" -> "config=fcfs.ini" */
static void series_of(const char *path, char out[LABEL_SIZE])
{
  const char *slash = strrchr(path, '/');
  const char *at = slash != NULL ? slash + 1 : path;
  size_t used = 0;
  out[0] = '\0';
  while (*at != '\0') {
    size_t length = strcspn(at, "_");
    if (!is_part(at, length, "request-rate") && !is_part(at, length, "seed"))
      used += (size_t)snprintf(out + used, LABEL_SIZE - used, "%s%.*s",
                               used > 0 ? " " : "", (int)length, at);
    if (used >= LABEL_SIZE)
      return;
    at += length + (at[length] == '_');
  }
  char *ending = strstr(out, ".json");
  if (ending != NULL)
    *ending = '\0';
}

static int by_series(const void *a, const void *b)
{
  const struct run *x = a, *y = b;
  int order = strcmp(x->series, y->series);
  return order != 0 ? order : (x->rate > y->rate) - (x->rate < y->rate);
}

static void close_runs(struct runs *runs)
{
  for (size_t i = 0; i < runs->n; i++)
    json_decref(runs->runs[i].result);
  free(runs->runs);
}

static int read_runs(const char *const *paths, size_t n, struct runs *out,
                     struct lls_error *err)
{
  *out = (struct runs){.runs = calloc(n + 1, sizeof *out->runs)};
  if (out->runs == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the plot");
  for (size_t i = 0; i < n; i++) {
    struct run *run = &out->runs[out->n];
    run->result = lls_result_read(paths[i], err);
    if (run->result == NULL) {
      close_runs(out);
      return -EINVAL;
    }
    out->n++;
    series_of(paths[i], run->series);
    run->rate = lls_result_number(run->result, "request_rate");
  }
  qsort(out->runs, out->n, sizeof *out->runs, by_series);
  return 0;
}

/* The first run of the next series after i. */
static size_t series_end(const struct runs *runs, size_t i)
{
  size_t end = i;
  while (end < runs->n && strcmp(runs->runs[end].series, runs->runs[i].series) == 0)
    end++;
  return end;
}

/* ---- data blocks ------------------------------------------------------------------- */

/* The mean over the repeats from i on, which end at *end. */
static double mean_at(const struct runs *runs, size_t i, size_t *end, const char *key)
{
  double sum = 0;
  size_t n = 0, at = i;
  for (; at < runs->n && by_series(&runs->runs[at], &runs->runs[i]) == 0; at++) {
    double value = lls_result_number(runs->runs[at].result, key);
    if (isnan(value))
      continue;
    sum += value;
    n++;
  }
  *end = at;
  return n > 0 ? sum / (double)n : NAN;
}

/* $NAME0, $NAME1, ... : one block for each series, "rate value". */
static void rate_blocks(FILE *out, const struct runs *runs, const char *name,
                        const char *key, double scale)
{
  int block = 0;
  for (size_t i = 0; i < runs->n && block < CURVES_MAX; block++) {
    size_t end = series_end(runs, i);
    fprintf(out, "$%s%d << E\n", name, block);
    while (i < end) {
      double rate = runs->runs[i].rate;
      size_t next;
      double value = mean_at(runs, i, &next, key);
      if (isfinite(rate) && !isnan(value))
        fprintf(out, "%.9g %.9g\n", rate, scale * value);
      i = next;
    }
    fputs("NaN NaN\nE\n", out);
  }
}

/* The quantiles that a result keeps of one quantity, as "value percent". */
static void cdf_blocks(FILE *out, const struct runs *runs, const char *name,
                       const char *key)
{
  int block = 0;
  for (size_t i = 0; i < runs->n && block < CURVES_MAX; block++) {
    size_t end = series_end(runs, i);
    const json_t *all = json_object_get(runs->runs[end - 1].result, "quantiles");
    const json_t *list = json_object_get(all, key);
    fprintf(out, "$%s%d << E\n", name, block);
    for (size_t q = 0; q < json_array_size(list); q++)
      fprintf(out, "%.9g %.9g\n", json_number_value(json_array_get(list, q)),
              100.0 * (double)q / (double)(json_array_size(list) - 1));
    fputs("NaN NaN\nE\n", out);
    i = end;
  }
}

static void timeline_block(FILE *out, const json_t *timeline, const char *name,
                           const char *key, double scale)
{
  const json_t *list = json_object_get(timeline, key);
  double bin = lls_result_number(timeline, "bin_s");
  fprintf(out, "$%s << E\n", name);
  for (size_t i = 0; i < json_array_size(list); i++)
    fprintf(out, "%.9g %.9g\n", bin * ((double)i + 0.5),
            scale * json_number_value(json_array_get(list, i)));
  fputs("NaN NaN\nE\n", out);
}

/* ---- panels ------------------------------------------------------------------------ */

/* Text between double quotes for gnuplot. */
static void quote(FILE *out, const char *text)
{
  fputc('"', out);
  for (; *text != '\0'; text++)
    fputc(strchr("\"\\`", *text) != NULL ? ' ' : *text, out);
  fputc('"', out);
}

static void curves(FILE *out, const struct runs *runs, const char *name, bool at_rate,
                   const char *style)
{
  int block = 0;
  fputs("plot ", out);
  for (size_t i = 0; i < runs->n && block < CURVES_MAX; block++) {
    char title[LABEL_SIZE + 64];
    const struct run *last = &runs->runs[series_end(runs, i) - 1];
    if (at_rate && isfinite(last->rate))
      snprintf(title, sizeof title, "%s at %.4g req/s", last->series, last->rate);
    else
      snprintf(title, sizeof title, "%s", last->series);
    fprintf(out, "%s$%s%d using 1:2 with %s lt %d lw 2 title ", block > 0 ? ", " : "",
            name, block, style, block + 1);
    quote(out, runs->n == 1 ? "" : title[0] != '\0' ? title : "all runs");
    i = series_end(runs, i);
  }
  fputc('\n', out);
}

static void rate_panels(FILE *out, const struct runs *runs)
{
  rate_blocks(out, runs, "attained", "slo_attainment.all", 100);
  rate_blocks(out, runs, "latency", "mean_normalised_latency_ms", 1);
  fputs("set title \"Requests that met all their SLOs\"\n"
        "set xlabel \"Request rate (req/s)\"\nset ylabel \"Share of all issued (%)\"\n"
        "set yrange [0:105]\nset key bottom left\n",
        out);
  curves(out, runs, "attained", false, "linespoints");
  fputs("set title \"Mean normalised latency\"\nset ylabel \"Latency / tokens (ms per "
        "token)\"\nset yrange [0:*]\nset key top left\n",
        out);
  curves(out, runs, "latency", false, "linespoints");
}

static void cdf_panels(FILE *out, const struct runs *runs)
{
  cdf_blocks(out, runs, "ttft", "ttft_ms");
  cdf_blocks(out, runs, "tpot", "tpot_ms");
  fputs("set title \"Time to first token, CDF\"\nset xlabel \"TTFT (ms)\"\n"
        "set ylabel \"Requests (%)\"\nset yrange [0:105]\nset xrange [*:*]\n"
        "set key bottom right\n",
        out);
  curves(out, runs, "ttft", true, "lines");
  fputs("set title \"Time per output token, CDF\"\nset xlabel \"TPOT (ms)\"\n", out);
  curves(out, runs, "tpot", true, "lines");
}

/* What an engine did where one was seen, else what came and went. */
static void timeline_panels(FILE *out, const json_t *result)
{
  const json_t *timeline = json_object_get(result, "timeline");
  double units = lls_result_number(result, "engine.memory_units");
  bool engine = json_object_get(timeline, "batch") != NULL;
  timeline_block(out, timeline, "batch", engine ? "batch" : "arrivals_per_s", 1);
  timeline_block(out, timeline, "decodes", engine ? "decodes" : "tokens_per_s", 1);
  timeline_block(out, timeline, "waiting", "waiting", 1);
  timeline_block(out, timeline, "units", "units", isnan(units) ? 1 : 100 / units);
  timeline_block(out, timeline, "prefill", "prefill_tokens_per_s", 1);
  timeline_block(out, timeline, "tokens", "tokens_per_s", 1);
  fputs("set xlabel \"Time (s)\"\nset yrange [0:*]\nset key top right\n", out);
  if (!engine) {
    fputs("set title \"Requests that arrive\"\nset ylabel \"Requests per second\"\n"
          "plot $batch using 1:2 with histeps lw 2 notitle\n"
          "set title \"Tokens that come out\"\nset ylabel \"Tokens per second\"\n"
          "plot $tokens using 1:2 with histeps lw 2 notitle\n",
          out);
    return;
  }
  fputs("set title \"Batch composition\"\nset ylabel \"Requests\"\n"
        "plot $batch using 1:2 with filledcurves y1=0 fs transparent solid 0.4 "
        "title \"prefilling\", "
        "$decodes using 1:2 with filledcurves y1=0 fs transparent solid 0.6 "
        "title \"decoding\", "
        "$waiting using 1:2 with lines lw 2 title \"waiting\"\n",
        out);
  fprintf(out,
          "set title \"Cache and work\"\nset ylabel \"%s\"\nset y2label \"Tokens per "
          "second\"\nset y2tics\nset y2range [0:*]\n"
          "plot $units using 1:2 with lines lw 2 title \"cache in use\", "
          "$prefill using 1:2 axes x1y2 with lines title \"prompt tokens/s\", "
          "$tokens using 1:2 axes x1y2 with lines title \"generated tokens/s\"\n"
          "unset y2tics\nunset y2label\n",
          isnan(units) ? "Cache in use (blocks)" : "Cache in use (% of blocks)");
}

static void write_script(FILE *out, const struct runs *runs, const char *svg)
{
  fputs("set terminal svg size 1200,900 background \"white\" font \"sans,13\"\n"
        "set output ",
        out);
  quote(out, svg);
  fputs("\nset multiplot layout 2,2\nset grid\nset key opaque\n", out);
  if (runs->n == 1)
    timeline_panels(out, runs->runs[0].result);
  else
    rate_panels(out, runs);
  cdf_panels(out, runs);
  fputs("unset multiplot\n", out);
}

/* ---- gnuplot ----------------------------------------------------------------------- */

static bool in_path(const char *program)
{
  const char *at = getenv("PATH");
  while (at != NULL && *at != '\0') {
    char file[4096];
    size_t length = strcspn(at, ":");
    snprintf(file, sizeof file, "%.*s/%s", (int)length, at, program);
    if (access(file, X_OK) == 0)
      return true;
    at += length + (at[length] == ':');
  }
  return false;
}

int lls_plot(const char *const *paths, size_t n, const char *svg, struct lls_error *err)
{
  struct runs runs;
  if (!in_path("gnuplot"))
    return lls_fail(err, -ENOENT,
                    "%s: not drawn: gnuplot not found: apt-get install gnuplot-nox", svg);
  int rc = read_runs(paths, n, &runs, err);
  if (rc < 0)
    return rc;
  FILE *gnuplot = popen("gnuplot", "w");
  if (gnuplot == NULL)
    rc = lls_fail(err, -errno, "%s: gnuplot cannot be started: %s", svg, strerror(errno));
  else
    write_script(gnuplot, &runs, svg);
  if (gnuplot != NULL && pclose(gnuplot) != 0)
    rc = lls_fail(err, -EIO, "%s: gnuplot failed; it has said why", svg);
  close_runs(&runs);
  return rc;
}
