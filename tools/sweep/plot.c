/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finished runs as a picture, by gnuplot, of four panels. Several runs: attainment and
 * latency against the rate, with 95 % intervals where rates are repeated, and the CDFs of
 * all repeats at one rate. One run: its timeline and its CDFs.
 *
 * A series has its hue (Okabe and Ito's, without yellow) in all panels; the key stands
 * below them, where it covers no curve.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/sweep/plot_data.h"

#define TITLE_SIZE 512
#define BARS       50 /* of a run's arrivals; more are no picture */

/* Text between double quotes for gnuplot, whose only escape that we write is \n. */
static void quote(FILE *out, const char *text)
{
  fputc('"', out);
  for (; *text != '\0'; text++)
    if (*text == '\\' && text[1] == 'n')
      fputs("\\n", out), text++;
    else
      fputc(strchr("\"\\`", *text) != NULL ? ' ' : *text, out);
  fputc('"', out);
}

/* ---- data blocks ------------------------------------------------------------------- */

static struct lls_interval interval_of(const struct lls_plot_runs *runs,
                                       struct lls_plot_part part, const char *key)
{
  double *values = calloc(part.end - part.from, sizeof *values);
  size_t n = values != NULL ? part.end - part.from : 0;
  for (size_t i = 0; i < n; i++)
    values[i] = lls_result_number(runs->list[part.from + i].result, key);
  struct lls_interval out = lls_bootstrap(values, n);
  if (isnan(out.low)) /* a single value */
    out.low = out.high = out.mean;
  free(values);
  return out;
}

static size_t most_repeats(const struct lls_plot_runs *runs, struct lls_plot_part series)
{
  size_t most = 0;
  for (size_t i = series.from; i < series.end;) {
    struct lls_plot_part repeats = lls_plot_repeats(runs, i);
    if (repeats.end - repeats.from > most)
      most = repeats.end - repeats.from;
    i = repeats.end;
  }
  return most;
}

/* $NAME0, $NAME1, ... : one block for each series, "rate mean low high". Rates that a
 * search tried with some of the seeds only have another mean, and are left out. */
static void rate_blocks(FILE *out, const struct lls_plot_runs *runs, const char *name,
                        const char *key, double scale)
{
  int block = 0;
  for (size_t i = 0; i < runs->n && block < LLS_PLOT_CURVES; block++) {
    struct lls_plot_part series = lls_plot_series(runs, i);
    size_t seeds = most_repeats(runs, series);
    fprintf(out, "$%s%d << E\n", name, block);
    while (i < series.end) {
      struct lls_plot_part repeats = lls_plot_repeats(runs, i);
      struct lls_interval at = interval_of(runs, repeats, key);
      if (isfinite(runs->list[i].rate) && !isnan(at.mean) &&
          repeats.end - repeats.from == seeds)
        fprintf(out, "%.9g %.9g %.9g %.9g\n", runs->list[i].rate, scale * at.mean,
                scale * at.low, scale * at.high);
      i = repeats.end;
    }
    fputs("NaN NaN NaN NaN\nE\n", out);
  }
}

/* "value percent" */
static void cdf_block(FILE *out, const struct lls_plot_runs *runs,
                      struct lls_plot_part part, const char *key)
{
  double *values;
  size_t n = lls_plot_values(runs, part, key, &values);
  for (size_t i = 0; i < n; i++)
    fprintf(out, "%.9g %.9g\n", values[i],
            n > 1 ? 100.0 * (double)i / (double)(n - 1) : 100);
  free(values);
}

static void cdf_blocks(FILE *out, const struct lls_plot_runs *runs, const char *name,
                       const char *key)
{
  double rate = lls_plot_common_rate(runs);
  int block = 0;
  for (size_t i = 0; i < runs->n && block < LLS_PLOT_CURVES; block++) {
    struct lls_plot_part series = lls_plot_series(runs, i);
    fprintf(out, "$%s%d << E\n", name, block);
    cdf_block(out, runs, lls_plot_at(runs, series, rate), key);
    fputs("NaN NaN\nE\n", out);
    i = series.end;
  }
}

/* A list of the timeline, so many of its bins together. */
static void timeline_block(FILE *out, const json_t *timeline, const char *name,
                           const char *key, double scale, size_t together)
{
  const json_t *list = json_object_get(timeline, key);
  double bin = lls_result_number(timeline, "bin_s");
  fprintf(out, "$%s << E\n", name);
  for (size_t i = 0; i < json_array_size(list); i += together) {
    double sum = 0;
    size_t n = 0;
    for (; n < together && i + n < json_array_size(list); n++)
      sum += json_number_value(json_array_get(list, i + n));
    fprintf(out, "%.9g %.9g\n", bin * ((double)i + (double)n / 2),
            scale * sum / (double)n);
  }
  fputs("NaN NaN\nE\n", out);
}

/* ---- several runs ------------------------------------------------------------------ */

/* A curve for each series; titles only where the key is. */
static void curves(FILE *out, const struct lls_plot_runs *runs, const char *name,
                   const char *style, bool titles)
{
  double rate = lls_plot_common_rate(runs);
  int block = 0;
  fputs("plot ", out);
  for (size_t i = 0; i < runs->n && block < LLS_PLOT_CURVES; block++) {
    struct lls_plot_part series = lls_plot_series(runs, i);
    const struct lls_plot_run *last = &runs->list[series.end - 1];
    char title[LLS_PLOT_LABEL + 64];
    snprintf(title, sizeof title, "%s",
             last->series[0] != '\0' ? last->series : "all runs");
    if (isnan(rate) && isfinite(last->rate))
      snprintf(title, sizeof title, "%.*s (CDFs at %.4g req/s)", LLS_PLOT_LABEL,
               last->series, last->rate);
    fprintf(out, "%s$%s%d with %s lt %d title ", block > 0 ? ", " : "", name, block,
            style, block + 1);
    quote(out, titles ? title : "");
    i = series.end;
  }
  fputc('\n', out);
}

static void rate_panels(FILE *out, const struct lls_plot_runs *runs)
{
  rate_blocks(out, runs, "attained", "slo_attainment.all", 100);
  rate_blocks(out, runs, "latency", "mean_normalised_latency_ms", 1);
  fputs("unset key\nset title \"Requests that met all their SLOs\"\n"
        "set xlabel \"Request rate (req/s)\"\nset ylabel \"Share of all issued (%)\"\n"
        "set yrange [0:105]\n",
        out);
  curves(out, runs, "attained", "yerrorlines", false);
  fputs("set title \"Mean normalised latency\"\nset ylabel \"Latency / tokens (ms per "
        "token)\"\nset yrange [0:*]\n",
        out);
  curves(out, runs, "latency", "yerrorlines", false);
}

/* "Time to first token" -> "Time to first token at 4 req/s, CDF of all seeds" */
static void cdf_title(FILE *out, const struct lls_plot_runs *runs, const char *what)
{
  double rate = lls_plot_common_rate(runs);
  bool repeated = lls_plot_repeats(runs, 0).end > 1;
  const char *seeds = repeated ? ", CDF of all seeds" : ", CDF";
  if (isfinite(rate))
    fprintf(out, "set title \"%s at %.4g req/s%s\"\n", what, rate, seeds);
  else
    fprintf(out, "set title \"%s%s%s\"\n", what,
            runs->n > 1 && isfinite(runs->list[0].rate) ? " at each one's highest rate"
                                                        : "",
            seeds);
}

static void cdf_panels(FILE *out, const struct lls_plot_runs *runs)
{
  cdf_blocks(out, runs, "ttft", "ttft_ms");
  cdf_blocks(out, runs, "tpot", "tpot_ms");
  fputs("unset key\n", out);
  cdf_title(out, runs, "Time to first token");
  fputs("set xlabel \"TTFT (ms)\"\nset ylabel \"Requests (%)\"\nset yrange [0:105]\n"
        "set logscale x\nset xrange [*:*]\n",
        out);
  curves(out, runs, "ttft", "lines", false);
  fputs("unset logscale x\n", out);
  cdf_title(out, runs, "Time per output token");
  fputs("set xlabel \"TPOT (ms)\"\n", out);
  if (runs->n > 1)
    fputs("set key at screen 0.5, screen 0.01 center bottom horizontal maxcols 4\n", out);
  curves(out, runs, "tpot", "lines", runs->n > 1);
}

/* ---- one run ----------------------------------------------------------------------- */

static void engine_panels(FILE *out, const json_t *timeline, double units)
{
  timeline_block(out, timeline, "batch", "batch", 1, 1);
  timeline_block(out, timeline, "decodes", "decodes", 1, 1);
  timeline_block(out, timeline, "waiting", "waiting", 1, 1);
  timeline_block(out, timeline, "units", "units", isnan(units) ? 1 : 100 / units, 1);
  timeline_block(out, timeline, "prefill", "prefill_tokens_per_s", 1, 1);
  timeline_block(out, timeline, "tokens", "tokens_per_s", 1, 1);
  fputs("set title \"Batch composition\"\nset ylabel \"Requests\"\n"
        "plot $batch with filledcurves y1=0 lt 2 fs solid 0.5 title \"prefilling\", "
        "$decodes with filledcurves y1=0 lt 1 fs solid 0.7 title \"decoding\", "
        "$waiting with lines lt 3 title \"waiting\"\n",
        out);
  fprintf(out,
          "set title \"Cache and work\"\nset ylabel \"%s\"\nset y2label \"Tokens per "
          "second\"\nset y2tics\nset y2range [0:*]\n"
          "plot $units with lines lt 4 title \"cache in use\", "
          "$prefill axes x1y2 with lines lt 2 title \"prompt tokens/s (right)\", "
          "$tokens axes x1y2 with lines lt 1 title \"generated tokens/s (right)\"\n"
          "unset y2tics\nunset y2label\n",
          isnan(units) ? "Cache in use (blocks)" : "Cache in use (% of blocks)");
}

static void client_panels(FILE *out, const json_t *timeline)
{
  size_t bins = json_array_size(json_object_get(timeline, "tokens_per_s"));
  size_t together = (bins + BARS - 1) / BARS;
  timeline_block(out, timeline, "arrivals", "arrivals_per_s", 1, together);
  timeline_block(out, timeline, "tokens", "tokens_per_s", 1, together);
  fputs("set title \"Requests that arrive\"\nset ylabel \"Requests per second\"\n"
        "plot $arrivals with histeps lt 1 notitle\n"
        "set title \"Tokens that come out\"\nset ylabel \"Tokens per second\"\n"
        "plot $tokens with histeps lt 1 notitle\n",
        out);
}

/* Panels of the engine's work where it was seen, else of arrivals and ends. */
static void timeline_panels(FILE *out, const json_t *result)
{
  const json_t *timeline = json_object_get(result, "timeline");
  fputs("set xlabel \"Time (s)\"\nset yrange [0:*]\nset key below\nset bmargin 7\n", out);
  if (json_object_get(timeline, "batch") != NULL)
    engine_panels(out, timeline, lls_result_number(result, "engine.memory_units"));
  else
    client_panels(out, timeline);
  fputs("set bmargin -1\n", out);
}

/* ---- the picture ------------------------------------------------------------------- */

static void write_hues(FILE *out)
{
  static const char *const hues[] = {"#0072b2", "#d55e00", "#009e73", "#000000",
                                     "#cc79a7", "#e69f00", "#56b4e9"};
  size_t n = sizeof hues / sizeof *hues;
  for (size_t i = 0; i < LLS_PLOT_CURVES; i++)
    fprintf(out, "set linetype %zu lc rgb \"%s\" lw 2 pt %zu dt %s\n", i + 1, hues[i % n],
            4 + i, i < n ? "1" : "2");
}

static void write_script(FILE *out, const struct lls_plot_runs *runs, const char *svg)
{
  char title[TITLE_SIZE];
  lls_plot_title(runs, title, sizeof title);
  fputs("set terminal svg size 1200,960 background \"white\" font \"sans,13\" "
        "noenhanced\nset output ",
        out);
  quote(out, svg);
  fputc('\n', out);
  write_hues(out);
  fputs("set multiplot layout 2,2 title ", out);
  quote(out, title);
  if (runs->n > 1)
    fputs(" margins 0.07, 0.98, 0.15, 0.89 spacing 0.09, 0.12", out);
  fputs("\nset grid\n", out);
  if (runs->n == 1)
    timeline_panels(out, runs->list[0].result);
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

int lls_plot_check(const char *svg, struct lls_error *err)
{
  return in_path("gnuplot") ? 0
                            : lls_fail(err, -EINVAL,
                                       "--plot %s: needs gnuplot, which is not found: "
                                       "apt-get install gnuplot-nox",
                                       svg);
}

int lls_plot(const struct lls_plot_source *sources, size_t n, const char *svg,
             struct lls_error *err)
{
  struct lls_plot_runs runs;
  int rc = lls_plot_read(sources, n, &runs, err);
  if (rc < 0)
    return rc;
  FILE *gnuplot = popen("gnuplot", "w");
  if (gnuplot == NULL)
    rc = lls_fail(err, -EIO, "%s: gnuplot cannot be started: %s", svg, strerror(errno));
  else
    write_script(gnuplot, &runs, svg);
  if (gnuplot != NULL && pclose(gnuplot) != 0)
    rc = lls_fail(err, -EIO, "%s: gnuplot failed (see above); the results are kept", svg);
  lls_plot_free(&runs);
  return rc;
}
