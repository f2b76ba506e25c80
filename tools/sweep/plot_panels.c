/* SPDX-License-Identifier: Apache-2.0 */
/* Writes gnuplot's commands; see plot_panels.h. */
#include "tools/sweep/plot_panels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/instance/life.h"

#define BARS 50 /* most bars of arrivals; more would be unreadable */

/* Writes text between double quotes for gnuplot; the only escape written is \n. */
void lls_plot_quote(FILE *out, const char *text)
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

/* Writes the blocks $NAME0, $NAME1, ..., one for each series, with lines "rate mean low
 * high". A rate that a search tried with only some of the seeds is left out, since its
 * mean is not comparable. Returns the number of points. */
static size_t rate_blocks(FILE *out, const struct lls_plot_runs *runs, const char *name,
                          const char *key, double scale)
{
  size_t points = 0;
  int block = 0;
  for (size_t i = 0; i < runs->n && block < LLS_PLOT_CURVES; block++) {
    struct lls_plot_part series = lls_plot_series(runs, i);
    size_t seeds = most_repeats(runs, series);
    fprintf(out, "$%s%d << E\n", name, block);
    while (i < series.end) {
      struct lls_plot_part repeats = lls_plot_repeats(runs, i);
      struct lls_interval at = lls_plot_interval(runs, repeats, key);
      if (isfinite(runs->list[i].rate) && !isnan(at.mean) &&
          repeats.end - repeats.from == seeds) {
        points++;
        fprintf(out, "%.9g %.9g %.9g %.9g\n", runs->list[i].rate, scale * at.mean,
                scale * at.low, scale * at.high);
      }
      i = repeats.end;
    }
    fputs("NaN NaN NaN NaN\nE\n", out);
  }
  return points;
}

/* Writes a block with lines "value percent". */
static size_t cdf_block(FILE *out, const struct lls_plot_runs *runs,
                        struct lls_plot_part part, const char *key)
{
  double *values;
  size_t n = lls_plot_values(runs, part, key, &values);
  for (size_t i = 0; i < n; i++)
    fprintf(out, "%.9g %.9g\n", values[i],
            n > 1 ? 100.0 * (double)i / (double)(n - 1) : 100);
  free(values);
  return n;
}

static size_t cdf_blocks(FILE *out, const struct lls_plot_runs *runs, const char *name,
                         const char *key)
{
  size_t points = 0;
  double rate = lls_plot_common_rate(runs);
  int block = 0;
  for (size_t i = 0; i < runs->n && block < LLS_PLOT_CURVES; block++) {
    struct lls_plot_part series = lls_plot_series(runs, i);
    fprintf(out, "$%s%d << E\n", name, block);
    points += cdf_block(out, runs, lls_plot_at(runs, series, rate), key);
    fputs("NaN NaN\nE\n", out);
    i = series.end;
  }
  return points;
}

/* Writes a list of the timeline, merging several bins into one value. */
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

/* ---- panels ------------------------------------------------------------------------ */

/* Begins a panel, which on a page is a separate picture. Returns false if there are no
 * points, since gnuplot cannot draw axes for none; its place in a common picture stays
 * empty. */
static bool begin_panel(struct lls_plot_panels *p, size_t points)
{
  if (points == 0 && p->folder == NULL)
    fputs("set multiplot next\n", p->out);
  if (points == 0)
    return false;
  p->n++;
  if (p->folder == NULL)
    return true;
  fprintf(
      p->out,
      "set terminal svg size 680,460 background \"white\" font \"sans,13\" noenhanced "
      "name \"panel%u\"\nset output ",
      p->n);
  char file[LLS_PLOT_PATH];
  lls_plot_panel_path(p, p->n, file);
  lls_plot_quote(p->out, file);
  fputs("\nset key below\n", p->out);
  return true;
}

void lls_plot_panel_path(const struct lls_plot_panels *p, unsigned n,
                         char out[LLS_PLOT_PATH])
{
  snprintf(out, LLS_PLOT_PATH, "%s/%u.svg", p->folder, n);
}

/* ---- several runs ------------------------------------------------------------------ */

/* Draws a curve for each series, with titles only in the panel that has the key. */
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
    lls_plot_quote(out, titles ? title : "");
    i = series.end;
  }
  fputc('\n', out);
}

static void rate_panel(struct lls_plot_panels *p, const char *name, const char *key,
                       double scale, const char *words)
{
  size_t points = rate_blocks(p->out, p->runs, name, key, scale);
  if (!begin_panel(p, points))
    return;
  fprintf(p->out, "set xlabel \"Request rate (req/s)\"\n%s\n", words);
  curves(p->out, p->runs, name, "yerrorlines", p->folder != NULL);
}

static void rate_panels(struct lls_plot_panels *p)
{
  fputs("unset key\n", p->out);
  rate_panel(p, "attained", "slo_attainment.all", 100,
             "set title \"Requests that met all their SLOs\"\n"
             "set ylabel \"Share of all issued (%)\"\nset yrange [0:105]");
  rate_panel(p, "latency", "mean_normalised_latency_ms", 1,
             "set title \"Mean normalised latency\"\n"
             "set ylabel \"Latency / tokens (ms per token)\"\nset yrange [0:*]");
}

/* Makes "Time to first token at 4 req/s, CDF of all seeds" from "Time to first
 * token". */
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

/* The CDF of one quantity. Waiting times span decades, so their axis is logarithmic. */
static void cdf_panel(struct lls_plot_panels *p, const char *key, const char *what,
                      const char *axis, bool logarithmic, bool titles)
{
  char name[16];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(key, "_"), key);
  if (!begin_panel(p, cdf_blocks(p->out, p->runs, name, key)))
    return;
  cdf_title(p->out, p->runs, what);
  fprintf(p->out,
          "set xlabel \"%s (ms)\"\nset ylabel \"Requests (%%)\"\nset yrange [0:105]\n"
          "set xrange [*:*]\n%s\n",
          axis, logarithmic ? "set logscale x" : "unset logscale x");
  curves(p->out, p->runs, name, "lines", titles);
  fputs("unset logscale x\n", p->out);
}

/* The CDF panels. A common picture of several runs has only four panels, so the latency
 * of whole requests is shown there only in its normalised form. */
static void cdf_panels(struct lls_plot_panels *p)
{
  bool own_key = p->folder != NULL && p->runs->n > 1;
  fputs("unset key\n", p->out);
  cdf_panel(p, "ttft_ms", "Time to first token", "TTFT", true, own_key);
  if (p->runs->n == 1 || p->folder != NULL)
    cdf_panel(p, "e2el_ms", "Latency of whole requests", "Latency", true, own_key);
  if (p->runs->n > 1 && p->folder == NULL)
    fputs("set key at screen 0.5, screen 0.01 center bottom horizontal maxcols 4\n",
          p->out);
  cdf_panel(p, "tpot_ms", "Time per output token", "TPOT", false, p->runs->n > 1);
}

/* ---- one run ----------------------------------------------------------------------- */

static void engine_panels(struct lls_plot_panels *p, const json_t *timeline, double units)
{
  FILE *out = p->out;
  timeline_block(out, timeline, "batch", "batch", 1, 1);
  timeline_block(out, timeline, "decodes", "decodes", 1, 1);
  timeline_block(out, timeline, "waiting", "waiting", 1, 1);
  timeline_block(out, timeline, "units", "units", isnan(units) ? 1 : 100 / units, 1);
  timeline_block(out, timeline, "prefill", "prefill_tokens_per_s", 1, 1);
  timeline_block(out, timeline, "tokens", "tokens_per_s", 1, 1);
  begin_panel(p, 1);
  fputs("set title \"Batch composition\"\nset ylabel \"Requests\"\n"
        "plot $batch with filledcurves y1=0 lt 2 fs solid 0.5 title \"prefilling\", "
        "$decodes with filledcurves y1=0 lt 1 fs solid 0.7 title \"decoding\", "
        "$waiting with lines lt 3 title \"waiting\"\n",
        out);
  begin_panel(p, 1);
  fprintf(out,
          "set title \"Cache and work\"\nset ylabel \"%s\"\nset y2label \"Tokens per "
          "second\"\nset y2tics\nset y2range [0:*]\n"
          "plot $units with lines lt 4 title \"cache in use\", "
          "$prefill axes x1y2 with lines lt 2 title \"prompt tokens/s (right)\", "
          "$tokens axes x1y2 with lines lt 1 title \"generated tokens/s (right)\"\n"
          "unset y2tics\nunset y2label\n",
          isnan(units) ? "Cache in use (blocks)" : "Cache in use (% of blocks)");
}

static void arrivals_panel(struct lls_plot_panels *p, const json_t *timeline,
                           size_t together)
{
  timeline_block(p->out, timeline, "arrivals", "arrivals_per_s", 1, together);
  begin_panel(p, 1);
  fputs("set title \"Requests that arrive\"\nset ylabel \"Requests per second\"\n"
        "plot $arrivals with histeps lt 1 notitle\n",
        p->out);
}

/* Numbers of requests as the server reports them. */
static void queue_panel(struct lls_plot_panels *p, const json_t *timeline)
{
  timeline_block(p->out, timeline, "running", "requests_running", 1, 1);
  timeline_block(p->out, timeline, "waiting", "requests_waiting", 1, 1);
  begin_panel(p, 1);
  fputs("set title \"Requests at the server\"\nset ylabel \"Requests\"\n"
        "plot $running with filledcurves y1=0 lt 1 fs solid 0.7 title \"running\", "
        "$waiting with lines lt 3 title \"waiting\"\n",
        p->out);
}

static void client_panels(struct lls_plot_panels *p, const json_t *timeline)
{
  FILE *out = p->out;
  size_t bins = json_array_size(json_object_get(timeline, "tokens_per_s"));
  size_t together = (bins + BARS - 1) / BARS;
  bool cache = json_object_get(timeline, "cache_used") != NULL;
  if (json_object_get(timeline, "requests_running") != NULL)
    queue_panel(p, timeline);
  else
    arrivals_panel(p, timeline, together);
  timeline_block(out, timeline, "tokens", "tokens_per_s", 1, together);
  if (cache)
    timeline_block(out, timeline, "cache", "cache_used", 100, 1);
  begin_panel(p, 1);
  fputs("set title \"Tokens that come out\"\nset ylabel \"Tokens per second\"\n", out);
  if (cache)
    fputs("set y2label \"Cache in use (%)\"\nset y2tics\nset y2range [0:100]\n", out);
  fprintf(out, "plot $tokens with histeps lt 1 title \"tokens/s\"%s\n",
          cache ? ", $cache axes x1y2 with lines lt 4 title \"cache in use (right)\""
                : "");
  fputs("unset y2tics\nunset y2label\n", out);
}

/* Panels of the engine's work if it is known, else of arrivals and ends. */
static void timeline_panels(struct lls_plot_panels *p)
{
  const json_t *result = p->runs->list[0].result;
  const json_t *timeline = json_object_get(result, "timeline");
  if (json_object_get(timeline, "batch") != NULL)
    engine_panels(p, timeline, lls_result_number(result, "engine.memory_units"));
  else
    client_panels(p, timeline);
}

/* ---- requests of one run as bars --------------------------------------------------- */

static const struct {
  const char *name, *hue;
} phases[] = {
    [LLS_PHASE_QUEUED] = {"queued", "#999999"},
    [LLS_PHASE_PREFILL] = {"prefill", "#d55e00"},
    [LLS_PHASE_DECODE] = {"decode", "#0072b2"},
    [LLS_PHASE_PAUSED] = {"paused", "#e69f00"},
    [LLS_PHASE_SWAPPED] = {"swapped out", "#cc79a7"},
    [LLS_PHASE_MOVING] = {"moving", "#000000"},
};
#define PHASES (sizeof phases / sizeof *phases)

/* Writes a phase of all lives, as lines "from lane length 0"; returns their number. */
static size_t phase_block(FILE *out, const json_t *lives, size_t phase)
{
  size_t lane, found = 0;
  const json_t *life;
  fprintf(out, "$phase%zu << E\n", phase);
  json_array_foreach(lives, lane, life)
  {
    const json_t *changes = json_object_get(life, "phases");
    size_t n = json_array_size(changes);
    for (size_t i = 0; i + 1 < n; i += 2) {
      double from = json_number_value(json_array_get(changes, i + 1));
      const json_t *next =
          i + 3 < n ? json_array_get(changes, i + 3) : json_object_get(life, "ended_s");
      if ((size_t)json_integer_value(json_array_get(changes, i)) != phase)
        continue;
      fprintf(out, "%.9g %zu %.9g 0\n", from, lane, json_number_value(next) - from);
      found++;
    }
  }
  fputs("NaN NaN NaN NaN\nE\n", out);
  return found;
}

static void gantt_panel(struct lls_plot_panels *p)
{
  FILE *out = p->out;
  const json_t *lives = json_object_get(p->runs->list[0].result, "lives");
  size_t n = json_array_size(lives), found[PHASES];
  const char *between = "plot ";
  for (size_t i = 0; i < PHASES; i++)
    found[i] = phase_block(out, lives, i);
  begin_panel(p, 1);
  fprintf(out,
          "set title \"%zu requests from the middle of the run\"\nset ylabel \"Request, "
          "by arrival\"\nset yrange [%zu:-1]\nunset ytics\n",
          n, n > 0 ? n : 1);
  for (size_t i = 0; i < PHASES; i++) {
    if (found[i] == 0)
      continue;
    fprintf(out, "%s$phase%zu with vectors nohead lw 2.5 lc rgb \"%s\" title \"%s\"",
            between, i, phases[i].hue, phases[i].name);
    between = ", ";
  }
  fputs("\nset ytics\n", out);
}

/* ---- all of them ------------------------------------------------------------------- */

static bool has_lives(const struct lls_plot_runs *runs)
{
  return json_array_size(json_object_get(runs->list[0].result, "lives")) > 0;
}

void lls_plot_draw_panels(struct lls_plot_panels *p)
{
  if (p->runs->n > 1) {
    rate_panels(p);
  } else {
    fputs("set xlabel \"Time (s)\"\nset yrange [0:*]\nset key below\nset bmargin 7\n",
          p->out);
    timeline_panels(p);
    if (has_lives(p->runs))
      gantt_panel(p);
    fputs("set bmargin -1\n", p->out);
  }
  cdf_panels(p);
}
