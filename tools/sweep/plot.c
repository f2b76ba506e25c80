/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plots finished runs with gnuplot: all panels in one SVG, or each separately in a page
 * (plot_page.h). A series has the same hue (Okabe and Ito's, without yellow) in all
 * panels; the key is below them, where it covers no curve.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/sweep/plot_page.h"
#include "tools/sweep/plot_panels.h"

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

/* Writes all panels into one picture. */
static void write_script(struct lls_plot_panels *p, const char *svg)
{
  char title[LLS_PLOT_TITLE];
  bool one = p->runs->n == 1;
  lls_plot_title(p->runs, title, sizeof title);
  fprintf(
      p->out,
      "set terminal svg size 1200,%d background \"white\" font \"sans,13\" noenhanced\n"
      "set output ",
      one ? 1400 : 960);
  lls_plot_quote(p->out, svg);
  fputc('\n', p->out);
  write_hues(p->out);
  fprintf(p->out, "set multiplot layout %d,2 title ", one ? 3 : 2);
  lls_plot_quote(p->out, title);
  if (!one)
    fputs(" margins 0.07, 0.98, 0.15, 0.89 spacing 0.09, 0.12", p->out);
  fputs("\nset grid\n", p->out);
  lls_plot_draw_panels(p);
  fputs("unset multiplot\n", p->out);
}

static void write_panels(struct lls_plot_panels *p)
{
  write_hues(p->out);
  fputs("set grid\n", p->out);
  lls_plot_draw_panels(p);
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

/* Runs gnuplot. p->folder NULL: one picture, in the file; else each panel as a file in
 * the folder. */
static int run_gnuplot(struct lls_plot_panels *p, const char *file, struct lls_error *err)
{
  p->out = popen("gnuplot", "w");
  if (p->out == NULL)
    return lls_fail(err, -EIO, "%s: gnuplot cannot be started: %s", file,
                    strerror(errno));
  if (p->folder != NULL)
    write_panels(p);
  else
    write_script(p, file);
  return pclose(p->out) == 0
             ? 0
             : lls_fail(err, -EIO, "%s: gnuplot failed (see above); the results are kept",
                        file);
}

static void remove_panels(const struct lls_plot_panels *p)
{
  char path[LLS_PLOT_PATH];
  for (unsigned n = 1; n <= p->n; n++) {
    lls_plot_panel_path(p, n, path);
    unlink(path);
  }
  rmdir(p->folder);
}

static int draw_page(const struct lls_plot_runs *runs, const char *file,
                     struct lls_error *err)
{
  char folder[] = "/tmp/llmserve-plot-XXXXXX";
  struct lls_plot_panels panels = {.runs = runs, .folder = mkdtemp(folder)};
  if (panels.folder == NULL)
    return lls_fail(err, -errno, "%s: cannot be made: %s", folder, strerror(errno));
  int rc = run_gnuplot(&panels, file, err);
  if (rc == 0)
    rc = lls_plot_page_write(&panels, file, err);
  remove_panels(&panels);
  return rc;
}

static bool is_page(const char *file)
{
  size_t length = strlen(file);
  return length > 5 && strcmp(file + length - 5, ".html") == 0;
}

int lls_plot(const struct lls_plot_source *sources, size_t n, const char *file,
             struct lls_error *err)
{
  struct lls_plot_runs runs;
  int rc = lls_plot_read(sources, n, &runs, err);
  if (rc < 0)
    return rc;
  struct lls_plot_panels whole = {.runs = &runs};
  rc = is_page(file) ? draw_page(&runs, file, err) : run_gnuplot(&whole, file, err);
  lls_plot_free(&runs);
  return rc;
}
