/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes man pages from the parameter tables of the configuration:
 *
 *   generate config               the sections of llmserve.ini, for llmserve.ini(5)
 *   generate plugin KIND_NAME README PRESET
 *                                 a whole page about a plugin; the cache manager and
 * predictor in a scheduler's preset become its SEE ALSO
 *
 * Runs while llmserve is built; plugins are looked for as always (LLS_PLUGIN_PATH).
 */
#include "config.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"

/* Prints text escaped, so that roff shows it unchanged. */
static void put(const char *text)
{
  if (*text == '.' || *text == '\'')
    fputs("\\&", stdout);
  for (; *text != '\0'; text++)
    if (*text == '\\')
      fputs("\\e", stdout);
    else if (*text == '-')
      fputs("\\-", stdout);
    else
      putchar(*text);
}

static void put_line(const char *text)
{
  put(text);
  putchar('\n');
}

static void put_param(const struct lls_param *p)
{
  char expected[256];
  fputs(".TP\n\\fB", stdout);
  put(p->name);
  fputs("\\fR", stdout);
  if (!(p->flags & LLS_PARAM_REQUIRED)) {
    fputs(" = ", stdout);
    put(p->default_value);
  }
  putchar('\n');
  put_line(p->sentence);
  fputs(".br\n\\fI", stdout);
  put(lls_param_expected(p, expected, sizeof expected));
  fputs("\\fR", stdout);
  if (p->flags & LLS_PARAM_REQUIRED)
    fputs("; must be set", stdout);
  if (p->flags & LLS_PARAM_RELOADABLE)
    fputs("; may change while running", stdout);
  putchar('\n');
}

static void put_params(const struct lls_param_table *table)
{
  for (size_t i = 0; i < table->n; i++)
    if (!(table->params[i].flags & LLS_PARAM_EXPERIMENTAL))
      put_param(&table->params[i]);
}

/* A page says that there are more, and where they are described. */
static void put_experimental(const struct lls_plugin *d)
{
  unsigned n = 0;
  for (uint32_t i = 0; i < d->n_params; i++)
    n += (d->params[i].flags & LLS_PARAM_EXPERIMENTAL) != 0;
  if (n > 0)
    printf(".PP\nThere %s %u more for experiments:\n.B llmserve \\-\\-list\\-plugins %s "
           "\\-\\-experimental\n",
           n > 1 ? "are" : "is", n, d->id);
}

/* The one that the example sets; NULL: there is none. */
static const struct lls_param *first_param(const struct lls_plugin *d)
{
  for (uint32_t i = 0; i < d->n_params; i++)
    if (d->params[i].default_value != NULL &&
        !(d->params[i].flags & LLS_PARAM_EXPERIMENTAL))
      return &d->params[i];
  return NULL;
}

static int print_config(void)
{
  for (const struct lls_section *s = lls_sections; s->name != NULL; s++) {
    printf(".SS [%s]\n", s->name);
    put_line(s->sentence);
    put_params(&s->table);
  }
  return EXIT_SUCCESS;
}

/* ---- a plugin ----------------------------------------------------------------- */

/* "scheduler_fcfs": its kind, and the name after it. */
static uint32_t kind_of(const char *id, const char **name)
{
  for (uint32_t kind = LLS_KIND_SCHEDULER; kind <= LLS_KIND_DRAFTER; kind++) {
    const char *kind_name = lls_plugin_kind_name(kind);
    size_t length = strlen(kind_name);
    *name = id + length + 1;
    if (strncmp(id, kind_name, length) == 0 && id[length] == '_')
      return kind;
  }
  return 0;
}

/* The README less its title and its list of parameters: the page has both already. */
static int print_readme(const char *path)
{
  bool parameters = false;
  char *line = NULL;
  size_t size = 0;
  FILE *in = fopen(path, "r");
  if (in == NULL)
    return -1;
  puts(".SH NOTES\nFiles such as core/..., plugins/..., t/... and bench/... are in "
       "llmserve's "
       "source, and not installed.\n.PP\n.nf");
  for (int i = 0; getline(&line, &size, in) >= 0; i++) {
    line[strcspn(line, "\n")] = '\0';
    parameters = line[0] == '[' || (parameters && line[0] != '\0');
    if (i > 2 && !parameters)
      put_line(line);
  }
  puts(".fi");
  free(line);
  fclose(in);
  return 0;
}

static void put_upper(const char *text)
{
  for (; *text != '\0'; text++)
    putchar(toupper((unsigned char)*text));
}

/* How it is chosen, with its first parameter as an example. */
static void print_example(const struct lls_plugin *d, const char *kind)
{
  const struct lls_param *p = first_param(d);
  printf(".SH EXAMPLE\n.nf\n[plugins]\n%s = %s\n", kind, d->id);
  if (p != NULL)
    printf("\n[%s.%s]\n%s = %s\n", kind, d->id, p->name, p->default_value);
  puts(".fi");
  if (d->kind == LLS_KIND_SCHEDULER)
    printf(".SH FILES\n.TP\n.I " LLS_DATA_DIR
           "/presets/%s.ini\nA configuration to begin with.\n",
           d->id);
}

static void print_head(const struct lls_plugin *d, const char *kind)
{
  fputs(".TH LLMSERVE\\-", stdout);
  put_upper(kind);
  putchar('_');
  put_upper(d->id);
  printf(" 7 \"\" \"llmserve %s\"\n.SH NAME\nllmserve\\-%s_%s \\- ", PACKAGE_VERSION,
         kind, d->id);
  put_line(d->description);
  printf(".SH SYNOPSIS\n.nf\n[plugins]\n%s = %s\n", kind, d->id);
  if (d->n_params > 0)
    printf("\n[%s.%s]\n\\fIparameter\\fR = \\fIvalue\\fR\n", kind, d->id);
  puts(".fi");
}

/* "cache = hybrid" in a preset is a page to see; what predicts nothing is not. */
static void print_companions(uint32_t scheduler, const char *preset)
{
  char kind[16], name[64], line[256];
  FILE *in = scheduler == LLS_KIND_SCHEDULER ? fopen(preset, "r") : NULL;
  while (in != NULL && fgets(line, sizeof line, in) != NULL) {
    if (sscanf(line, "%15s = %63s", kind, name) != 2 || strcmp(name, "none") == 0)
      continue;
    for (uint32_t i = LLS_KIND_SCHEDULER + 1; i <= LLS_KIND_DRAFTER; i++)
      if (strcmp(kind, lls_plugin_kind_name(i)) == 0)
        printf(".BR llmserve\\-%s_%s (7),\n", kind, name);
  }
  if (in != NULL)
    fclose(in);
}

static int print_plugin(const char *id, const char *readme, const char *preset)
{
  const char *name;
  struct lls_plugin_module *module;
  struct lls_error err = {0};
  uint32_t kind = kind_of(id, &name);
  if (kind == 0 || lls_plugin_open(kind, name, &module, &err) < 0) {
    fprintf(stderr, "man/generate: %s: %s\n", id, err.text);
    return EXIT_FAILURE;
  }
  print_head(module->descriptor, lls_plugin_kind_name(kind));
  puts(".SH PARAMETERS");
  put_params(&module->params);
  if (module->params.n == 0)
    puts("None.");
  put_experimental(module->descriptor);
  print_example(module->descriptor, lls_plugin_kind_name(kind));
  int rc = print_readme(readme);
  puts(".SH SEE ALSO");
  print_companions(kind, preset);
  puts(".BR llmserve (1),\n.BR llmserve.ini (5),\n.BR llmserve\\-plugin (7)");
  lls_plugin_close(module);
  if (rc < 0)
    fprintf(stderr, "man/generate: %s: cannot be read\n", readme);
  return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
  if (argc == 2 && strcmp(argv[1], "config") == 0)
    return print_config();
  if (argc == 5 && strcmp(argv[1], "plugin") == 0)
    return print_plugin(argv[2], argv[3], argv[4]);
  fputs("usage: generate config | generate plugin KIND_NAME README PRESET\n", stderr);
  return EXIT_FAILURE;
}
