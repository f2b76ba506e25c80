/* SPDX-License-Identifier: Apache-2.0 */
/* --help-config and --list-plugins; see help.h. */
#include "core/config/help.h"

#include "core/config/config.h"

#include <string.h>

#define WIDTH 80 /* columns of a terminal of the usual width */

void lls_print_wrapped(FILE *out, const char *margin, const char *text)
{
  int column = 0;
  while (*text != '\0') {
    int length = (int)strcspn(text, " ");
    if (column > 0 && column + 1 + length > WIDTH) {
      fputc('\n', out);
      column = 0;
    }
    column += fprintf(out, "%s%.*s", column == 0 ? margin : " ", length, text);
    text += length;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

/* Returns the end of a description, after the values. */
static const char *promise(const struct lls_param *p)
{
  if (p->flags & LLS_PARAM_EXPERIMENTAL)
    return "; experimental";
  return p->flags & LLS_PARAM_RELOADABLE ? "; may change while running" : "";
}

/* Prints a parameter as a piece of an ini: a comment that describes it, then the key
 * with its default. */
static void print_param(FILE *out, const struct lls_param *p)
{
  char expected[256], line[512];
  fputc('\n', out);
  lls_print_wrapped(out, "; ", p->sentence);
  snprintf(line, sizeof line, "%s%s", lls_param_expected(p, expected, sizeof expected),
           promise(p));
  lls_print_wrapped(out, "; ", line);
  if (p->flags & LLS_PARAM_REQUIRED)
    fprintf(out, "; has no default, so set it:\n;%s =\n", p->name);
  else
    fprintf(out, "%s = %s\n", p->name, p->default_value);
}

static void say_hidden(FILE *out, const char *margin, unsigned n)
{
  if (n > 0)
    fprintf(out, "\n%s%u experimental parameter%s; --experimental shows %s\n", margin, n,
            n > 1 ? "s" : "", n > 1 ? "them" : "it");
}

/* Prints the parameters. Returns how many it left out. */
static unsigned print_params(FILE *out, const struct lls_param_table *table,
                             bool experimental)
{
  unsigned hidden = 0;
  for (size_t i = 0; i < table->n; i++)
    if (experimental || !(table->params[i].flags & LLS_PARAM_EXPERIMENTAL))
      print_param(out, &table->params[i]);
    else
      hidden++;
  return hidden;
}

/* ---- plugins ------------------------------------------------------------------ */

struct printing {
  FILE *out;
  const char *name; /* print only the plugin of this name; NULL: all */
  uint32_t kind;
  unsigned n; /* printed so far */
  bool experimental;
  void (*print)(FILE *, const struct lls_plugin_module *, bool experimental);
};

static int print_plugin(void *context, const char *name, const char *path)
{
  struct printing *p = context;
  struct lls_plugin_module *module;
  struct lls_error err = {0};
  if (p->name != NULL && strcmp(p->name, name) != 0)
    return 0;
  p->n++;
  if (lls_plugin_open(p->kind, name, &module, &err) < 0) {
    fprintf(p->out, "\n; %s %s is refused:\n; %s\n", lls_plugin_kind_name(p->kind), name,
            err.text[0] != '\0' ? err.text : path);
    return 0;
  }
  p->print(p->out, module, p->experimental);
  lls_plugin_close(module);
  return 0;
}

/* Prints the plugins named p.name, or all if it is NULL. Returns how many were printed.
 */
static unsigned print_plugins(struct printing p)
{
  for (p.kind = LLS_KIND_SCHEDULER; p.kind <= LLS_KIND_DRAFTER; p.kind++)
    lls_plugin_each(p.kind, print_plugin, &p);
  if (p.n == 0 && p.name == NULL)
    fputs("; no plugins found; --help says where they are looked for\n", p.out);
  return p.n;
}

static void print_section(FILE *out, const struct lls_plugin_module *module,
                          bool experimental)
{
  const struct lls_plugin *d = module->descriptor;
  fprintf(out, "\n[%s.%s]\n", lls_plugin_kind_name(d->kind), d->id);
  lls_print_wrapped(out, "; ", d->description);
  say_hidden(out, "; ", print_params(out, &module->params, experimental));
}

static void print_line(FILE *out, const struct lls_plugin_module *module,
                       bool experimental)
{
  (void)experimental;
  const struct lls_plugin *d = module->descriptor;
  fprintf(out, "%-9s  %-13s  %-5s  %s\n", lls_plugin_kind_name(d->kind), d->id,
          d->version, d->description);
}

static void print_details(FILE *out, const struct lls_plugin_module *module,
                          bool experimental)
{
  unsigned hidden = 0;
  const struct lls_plugin *d = module->descriptor;
  fprintf(out, "%s %s %s (%s)\n", lls_plugin_kind_name(d->kind), d->id, d->version,
          d->licence);
  lls_print_wrapped(out, "    ", d->description);
  fprintf(out, "    %s\n", module->path);
  for (size_t i = 0; i < module->params.n; i++) {
    const struct lls_param *p = &module->params.params[i];
    char expected[256];
    if (!experimental && (p->flags & LLS_PARAM_EXPERIMENTAL)) {
      hidden++;
      continue;
    }
    fprintf(out, "    %s = %s (%s)\n", p->name,
            p->default_value != NULL ? p->default_value : "REQUIRED",
            lls_param_expected(p, expected, sizeof expected));
    lls_print_wrapped(out, "        ", p->sentence);
  }
  say_hidden(out, "    ", hidden);
}

void lls_help_config(FILE *out, bool experimental)
{
  fputs("; llmserve.ini: every key with its default\n", out);
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++) {
    fprintf(out, "\n[%s]\n", s->name);
    lls_print_wrapped(out, "; ", s->sentence);
    print_params(out, &s->table, experimental);
  }
  print_plugins((struct printing){
      .out = out, .experimental = experimental, .print = print_section});
}

void lls_help_plugins(FILE *out)
{
  print_plugins((struct printing){.out = out, .print = print_line});
}

bool lls_help_plugin(FILE *out, const char *name, bool experimental)
{
  return print_plugins((struct printing){.out = out,
                                         .name = name,
                                         .experimental = experimental,
                                         .print = print_details}) > 0;
}
