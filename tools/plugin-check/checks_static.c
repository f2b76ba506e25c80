/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a plugin that do not run it; see checks.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/plugin-check/checks.h"
#include "tools/plugin-check/elf.h"

void check_loads(const struct subject *s, struct findings *f)
{
  struct lls_plugin_module *module;
  struct lls_error err = {0};
  if (lls_plugin_open(LLS_KIND_ANY, s->path, &module, &err) < 0) {
    found(f, "%s", err.text);
    return;
  }
  const struct lls_plugin *d = module->descriptor;
  identified(f, d->kind, d->id, d->version);
  noted(f, "%s", d->description);
  struct subject subject = *s;
  subject.kind = d->kind;
  if (scene_needs(&subject, f) & LLS_NEEDS_ROLES)
    needs_roles(f);
  lls_plugin_close(module);
}

/* Checks the name: llmserve.ini names a plugin by kind and id, and its file is found by
 * both. */
void check_name(const struct subject *s, struct findings *f)
{
  const char *slash = strrchr(s->path, '/');
  const char *file = slash != NULL ? slash + 1 : s->path;
  char expected[64];
  snprintf(expected, sizeof expected, "%s_%s.so", lls_plugin_kind_name(s->kind), s->id);
  if (strcmp(file, expected) == 0)
    return;
  for (uint32_t kind = LLS_KIND_SCHEDULER; kind <= LLS_KIND_DRAFTER; kind++) {
    const char *name = lls_plugin_kind_name(kind);
    if (strncmp(file, name, strlen(name)) == 0 && file[strlen(name)] == '_') {
      found(f, "the file is called %s, the plugin in it needs %s", file, expected);
      return;
    }
  }
  noted(f, "to be found by name in a plugin folder it must be called %s", expected);
}

/* ---- symbols ------------------------------------------------------------------ */

static bool is_one_of(const char *name, const char *const *list)
{
  for (; *list != NULL; list++)
    if (strcmp(name, *list) == 0)
      return true;
  return false;
}

static void judge_symbol(void *context, const char *name, bool defined)
{
  static const char *const linker[] = {
      "_init", "_fini", "__bss_start", "_edata", "_end", LLS_PLUGIN_SYMBOL, NULL};
  static const char *const forbidden[] = {
      "time",      "gettimeofday", "clock_gettime", "clock",    "ftime",
      "rand",      "rand_r",       "random",        "random_r", "srand",
      "srandom",   "drand48",      "erand48",       "lrand48",  "mrand48",
      "getrandom", "getentropy",   "arc4random",    NULL};
  struct findings *f = context;
  if (defined && !is_one_of(name, linker) && strncmp(name, "__asan", 6) != 0 &&
      strncmp(name, "__odr_asan", 10) != 0)
    found(f,
          "exports %s: only " LLS_PLUGIN_SYMBOL
          " may be seen (static, or -fvisibility=hidden)",
          name);
  if (!defined && is_one_of(name, forbidden))
    found(f, "calls %s: time and randomness come from the host alone", name);
}

void check_symbols(const struct subject *s, struct findings *f)
{
  int rc = elf_symbols(s->path, judge_symbol, f);
  if (rc < 0)
    found(f, "its symbols cannot be read: %s", strerror(-rc));
}

/* ---- parameters --------------------------------------------------------------- */

static const struct scene_options plain = {
    .block_tokens = 16,
    .device_units = 256,
    .host_units = 64,
    .max_tokens = 512,
    .max_sequences = 16,
    .max_context = 512,
    .max_requests = 64,
};

/* Starts with one parameter set; a refusal must come with an error message
 * (watch.c). */
static void try_value(const struct subject *s, struct findings *f, const char *name,
                      const char *text)
{
  const char *parameters[64] = {name, text};
  struct findings quiet = {.fd = -1, .where = f->where};
  struct subject with = *s;
  struct scene scene;
  for (int i = 0; s->parameters[i] != NULL && i < 60; i++)
    parameters[i + 2] = s->parameters[i];
  if (strcmp(name, parameters[2] != NULL ? parameters[2] : "") == 0)
    return; /* the user set this parameter */
  with.parameters = parameters;
  if (scene_open(&scene, &with, &plain, &quiet) == 0)
    scene_close(&scene);
  else if (quiet.n > 1) /* the first finding is that it did not start */
    found(f, "create with %s = %s fails without a sentence (host->fail)", name, text);
}

static void try_number(const struct subject *s, struct findings *f,
                       const struct lls_param *p, double value)
{
  char text[64];
  if (p->type == LLS_TYPE_DURATION)
    snprintf(text, sizeof text, "%.0fms", value / 1e6);
  else if (p->type == LLS_TYPE_FLOAT)
    snprintf(text, sizeof text, "%.9g", value);
  else
    snprintf(text, sizeof text, "%.0f", value);
  try_value(s, f, p->name, text);
}

static void try_choices(const struct subject *s, struct findings *f,
                        const struct lls_param *p)
{
  char choices[256];
  char *rest = choices;
  snprintf(choices, sizeof choices, "%s", p->choices);
  for (char *choice; (choice = strsep(&rest, "|")) != NULL;)
    try_value(s, f, p->name, choice);
}

static bool can_reconfigure(const struct lls_plugin_module *m)
{
  switch (m->descriptor->kind) {
  case LLS_KIND_SCHEDULER:
    return m->scheduler.reconfigure != NULL;
  case LLS_KIND_CACHE:
    return m->cache.reconfigure != NULL;
  case LLS_KIND_DRAFTER:
    return m->drafter.reconfigure != NULL;
  default:
    return m->predictor.reconfigure != NULL;
  }
}

static void try_parameter(const struct subject *s, struct findings *f,
                          const struct lls_plugin_module *m, const struct lls_param *p)
{
  if ((p->flags & LLS_PARAM_RELOADABLE) && !can_reconfigure(m))
    found(f, "parameter '%s' is marked reloadable, but there is no reconfigure", p->name);
  switch (p->type) {
  case LLS_TYPE_BOOL:
    try_value(s, f, p->name, "on");
    try_value(s, f, p->name, "off");
    break;
  case LLS_TYPE_CHOICE:
    try_choices(s, f, p);
    break;
  case LLS_TYPE_INT:
  case LLS_TYPE_FLOAT:
  case LLS_TYPE_DURATION:
  case LLS_TYPE_BYTES:
    if (p->min == 0 && p->max == 0)
      break;
    try_number(s, f, p, p->min);
    try_number(s, f, p, p->max);
  }
}

void check_parameters(const struct subject *s, struct findings *f)
{
  struct lls_plugin_module *m;
  struct lls_error err = {0};
  if (lls_plugin_open(s->kind, s->path, &m, &err) < 0) {
    found(f, "%s", err.text);
    return;
  }
  if (m->params.n == 0)
    skipped(f, "it has none");
  for (size_t i = 0; i < m->params.n; i++)
    try_parameter(s, f, m, &m->params.params[i]);
  lls_plugin_close(m);
}
