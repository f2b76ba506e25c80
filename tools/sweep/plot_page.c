/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the HTML page of a plot; see plot_page.h. gnuplot's pictures are put into the
 * page without the lines that precede <svg> in a separate file. */
#include "tools/sweep/plot_page.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    "<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { font: 15px/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 90rem; "
    "padding: 0 1rem; }\n"
    "h1 { font-size: 1.2rem; white-space: pre-line; }\n"
    "main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, "
    "minmax(min(32rem, 100%), 1fr)); }\n"
    "figure { margin: 0; background: #fff; border: 1px solid #bbb; border-radius: .4rem; "
    "}\n"
    "svg { display: block; width: 100%; height: auto; }\n"
    "div { overflow-x: auto; }\n"
    "table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: "
    "tabular-nums; }\n"
    "th, td { text-align: right; padding: .15rem .6rem; border-bottom: 1px solid #8886; "
    "}\n"
    "th:first-child, td:first-child { text-align: left; }\n"
    "</style>\n";

static void put_text(FILE *out, const char *text)
{
  for (; *text != '\0'; text++)
    if (*text == '<')
      fputs("&lt;", out);
    else if (*text == '&')
      fputs("&amp;", out);
    else if (text[0] == '\\' && text[1] == 'n') /* the line break in gnuplot's titles */
      fputc('\n', out), text++;
    else
      fputc(*text, out);
}

static void put_row(FILE *out, const struct lls_plot_runs *runs,
                    struct lls_plot_part repeats)
{
  const struct lls_plot_run *first = &runs->list[repeats.from];
  fputs("<tr><td>", out);
  put_text(out, first->series[0] != '\0' ? first->series : "all");
  if (isfinite(first->rate))
    fprintf(out, "</td><td>%.4g", first->rate);
  else
    fputs("</td><td>-", out);
  for (size_t c = 0; c < LLS_RESULT_COLUMNS; c++) {
    const struct lls_result_column *column = &lls_result_columns[c];
    double mean = column->scale * lls_plot_interval(runs, repeats, column->path).mean;
    if (isnan(mean))
      fputs("</td><td>-", out);
    else
      fprintf(out, "</td><td>%.*f", fabs(mean) < 100 ? 2 : 1, mean);
  }
  fputs("</td></tr>\n", out);
}

static void put_table(FILE *out, const struct lls_plot_runs *runs)
{
  fputs("<div><table><caption>Means of repeats; times in ms</caption><thead><tr>"
        "<th scope=\"col\">run</th><th scope=\"col\">rate</th>",
        out);
  for (size_t c = 0; c < LLS_RESULT_COLUMNS; c++) {
    fputs("<th scope=\"col\">", out);
    put_text(out, lls_result_columns[c].title);
    fputs("</th>", out);
  }
  fputs("</tr></thead><tbody>\n", out);
  for (size_t i = 0; i < runs->n;) {
    struct lls_plot_part repeats = lls_plot_repeats(runs, i);
    put_row(out, runs, repeats);
    i = repeats.end;
  }
  fputs("</tbody></table></div>\n", out);
}

/* Returns the file's text, malloc'ed; NULL if it does not exist. */
static char *read_file(const char *path)
{
  FILE *in = fopen(path, "r");
  char *text = NULL;
  size_t size = 0;
  if (in == NULL)
    return NULL;
  if (getdelim(&text, &size, '\0', in) < 0) {
    free(text);
    text = NULL;
  }
  fclose(in);
  return text;
}

static int put_panel(FILE *out, const struct lls_plot_panels *p, unsigned n,
                     struct lls_error *err)
{
  char path[LLS_PLOT_PATH];
  lls_plot_panel_path(p, n, path);
  char *text = read_file(path);
  const char *svg = text != NULL ? strstr(text, "<svg") : NULL;
  if (svg != NULL)
    fprintf(out, "<figure>\n%s</figure>\n", svg);
  free(text);
  return svg != NULL ? 0 : lls_fail(err, -EIO, "%s: gnuplot has not drawn it", path);
}

static int put_page(FILE *out, const struct lls_plot_panels *p, struct lls_error *err)
{
  char title[LLS_PLOT_TITLE];
  lls_plot_title(p->runs, title, sizeof title);
  fputs(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      out);
  put_text(out, title[0] != '\0' ? title : "llmserve");
  fprintf(out, "</title>\n%s<h1>", style);
  put_text(out, title[0] != '\0' ? title : "Runs");
  fputs("</h1>\n", out);
  put_table(out, p->runs);
  fputs("<main>\n", out);
  for (unsigned n = 1; n <= p->n; n++) {
    int rc = put_panel(out, p, n, err);
    if (rc < 0)
      return rc;
  }
  fputs("</main>\n</html>\n", out);
  return 0;
}

int lls_plot_page_write(const struct lls_plot_panels *p, const char *path,
                        struct lls_error *err)
{
  FILE *out = fopen(path, "w");
  if (out == NULL)
    return lls_fail(err, -EIO, "%s: cannot be written: %s", path, strerror(errno));
  int rc = put_page(out, p, err);
  bool written = ferror(out) == 0;
  if (fclose(out) != 0 || !written)
    return lls_fail(err, -EIO, "%s: cannot be written: %s", path, strerror(errno));
  return rc;
}
