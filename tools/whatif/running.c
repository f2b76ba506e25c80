/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a server for its policies and traffic; see running.h. */
#include "tools/whatif/running.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/installed.h"
#include "core/base/json_parse.h"
#include "tools/workload/decision_file.h"

static void ignore_line(void *context, unsigned line, const char *sentence)
{
  (void)context, (void)line, (void)sentence; /* ignored: llmserve-sim reports it */
}

/* ---- asking ----------------------------------------------------------------------- */

static int refused(const json_t *answer, int status, struct lls_error *err)
{
  const char *why =
      json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
  return lls_fail(err, -EACCES, "the server refuses (%d): %s", status,
                  why != NULL ? why : "no reason given");
}

int whom_ask(const struct whom *w, const char *method, const char *path,
             const json_t *body, json_t **answer, struct lls_error *err)
{
  int status = ctl_ask_with(&w->server, method, path, body, answer, err);
  if (status < 300)
    return status < 0 ? status : 0;
  int rc = refused(*answer, status, err);
  json_decref(*answer);
  *answer = NULL;
  return rc;
}

static int keep_text(struct running *out, const struct lls_text *text,
                     struct lls_error *err)
{
  int rc = nameless_create(&out->told, err);
  if (rc < 0)
    return rc;
  out->history = strdup(out->told.path);
  for (size_t at = 0; at < text->length;) {
    ssize_t n = write(out->told.fd, text->data + at, text->length - at);
    if (n < 0)
      return lls_fail(err, -errno, "no memory for the history: %s", strerror(errno));
    at += (size_t)n;
  }
  return 0;
}

static int ask_history(const struct whom *w, struct running *out, struct lls_error *err)
{
  struct lls_text text = {0};
  int status = ctl_ask_text(&w->server, "/admin/history", &text, err), rc = status;
  if (status >= 300) {
    json_t *answer = lls_json_parse_string(text.data, 0, NULL);
    rc = refused(answer, status, err);
    json_decref(answer);
  } else if (status >= 0) {
    rc = keep_text(out, &text, err);
  }
  lls_text_free(&text);
  return rc;
}

/* ---- what runs -------------------------------------------------------------------- */

/* Lists the policies, each with all its present parameters; the name does without a
 * drafter that guesses nothing. */
static void list_policies(const json_t *sections, struct lls_text *name,
                          struct lls_text *settings)
{
  static const char *const kinds[] = {"scheduler", "cache", "predictor", "drafter"};
  const json_t *plugins = json_object_get(sections, "plugins");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const char *id = json_string_value(json_object_get(plugins, kinds[i])), *key;
    char section[128];
    json_t *value;
    if (id == NULL)
      continue;
    if (i < 3 || strcmp(id, "none") != 0)
      lls_text_printf(name, "%s%s", i > 0 ? "+" : "", id);
    lls_text_printf(settings, "plugins.%s=%s\n", kinds[i], id);
    snprintf(section, sizeof section, "%s.%s", kinds[i], id);
    json_object_foreach(json_object_get(sections, section), key, value)
        lls_text_printf(settings, "%s.%s=%s\n", section, key, json_string_value(value));
  }
}

static int take_config(const json_t *answer, struct running *out, struct lls_error *err)
{
  struct lls_text name = {0}, settings = {0};
  const char *path = json_string_value(json_object_get(answer, "path"));
  const json_t *engine = json_object_get(json_object_get(answer, "sections"), "engine");
  const char *profile = json_string_value(json_object_get(engine, "profile"));
  out->profile = profile != NULL ? strdup(profile) : NULL;
  list_policies(json_object_get(answer, "sections"), &name, &settings);
  if (path != NULL && access(path, R_OK) == 0) {
    free(out->config);
    out->config = strdup(path);
  }
  out->name = name.data;
  out->settings = settings.data;
  return name.failed || settings.failed || out->config == NULL || name.data == NULL
             ? lls_fail(err, -ENOMEM, "no memory for the running configuration")
             : 0;
}

static int ask_server(const struct whom *w, struct running *out, struct lls_error *err)
{
  json_t *answer = NULL;
  int rc = ask_history(w, out, err);
  out->here = true;
  if (rc < 0)
    return rc;
  rc = whom_ask(w, "GET", "/admin/config", NULL, &answer, err);
  if (rc == 0)
    rc = take_config(answer, out, err);
  json_decref(answer);
  if (rc < 0 || (rc = whom_ask(w, "GET", "/admin/status", NULL, &answer, err)) < 0)
    return rc;
  const json_t *requests = json_object_get(answer, "requests");
  out->idle = json_integer_value(json_object_get(requests, "running")) == 0 &&
              json_integer_value(json_object_get(requests, "waiting")) == 0;
  json_decref(answer);
  return 0;
}

/* Makes the answer of GET /admin/config from a file, with "idle". */
static int read_config(const char *path, struct running *out, struct lls_error *err)
{
  json_error_t why;
  json_t *answer = lls_json_parse_file(path, 0, &why);
  if (answer == NULL)
    return lls_fail(err, -EINVAL, "%s:%d: %s", path, why.line, why.text);
  int rc = take_config(answer, out, err);
  out->idle = json_is_true(json_object_get(answer, "idle"));
  json_decref(answer);
  return rc;
}

/* ---- its first line --------------------------------------------------------------- */

/* Reads a header "SCHEDULER CACHE PREDICTOR SECTION.KEY=VALUE ...": the policies at the
 * server's start, used if the server cannot be asked, and the limits of the engine. */
static int take_header(const char *header, struct running *out, struct lls_error *err)
{
  static const char *const kinds[] = {"scheduler", "cache", "predictor"};
  struct lls_text name = {0}, settings = {0};
  size_t part = 0;
  lls_text_puts(&settings, out->settings != NULL ? out->settings : "");
  for (const char *at = header; *at != '\0'; part++) {
    int length = (int)strcspn(at, " ");
    if (part >= 3)
      lls_text_printf(&settings, "%.*s\n", length, at);
    else if (out->settings == NULL)
      lls_text_printf(&settings, "plugins.%s=%.*s\n", kinds[part], length, at);
    if (part < 3)
      lls_text_printf(&name, "%s%.*s", part > 0 ? "+" : "", length, at);
    at += length;
    at += strspn(at, " ");
  }
  if (out->name == NULL)
    out->name = name.data;
  else
    lls_text_free(&name);
  free(out->settings);
  out->settings = settings.data;
  return out->name == NULL || settings.failed || settings.data == NULL
             ? lls_fail(err, -ENOMEM, "no memory for the running configuration")
             : 0;
}

static int read_header(struct running *out, struct lls_error *err)
{
  struct lls_decision_file in;
  struct lls_decision_line line = {0};
  int rc = lls_decision_file_open(&in, out->history, err);
  if (rc < 0)
    return rc;
  rc = lls_decision_file_next(&in, &line, err);
  if (rc >= 0 && (rc == 0 || line.kind != 'H'))
    rc = lls_fail(err, -EINVAL, "%s:1: expected the first line of a decision log",
                  out->history);
  if (rc > 0)
    rc = take_header(line.rest, out, err);
  lls_text_free(&line.items);
  lls_decision_file_close(&in);
  return rc;
}

/* ---- the whole -------------------------------------------------------------------- */

/* The default path is fixed at configure time, so it may be in another prefix. */
static struct lls_installed config_of(const struct whatif_options *o)
{
  struct lls_installed given;
  if (strcmp(o->config, WHATIF_CONFIG) == 0)
    return lls_installed(o->config);
  snprintf(given.path, sizeof given.path, "%s", o->config);
  return given;
}

int whom_find(const struct whatif_options *o, struct whom *w, struct lls_error *err)
{
  struct lls_error unread = {0};
  *w = (struct whom){.server = {.address = o->address}};
  w->server.key = w->key;
  bool has_ini =
      lls_ini_read(config_of(o).path, ignore_line, NULL, &w->ini, &unread) == 0;
  ctl_find_address(&w->ini, w->address);
  if (o->address[0] == '\0')
    w->server.address = w->address;
  int rc = ctl_find_key(o->key_file[0] != '\0' ? o->key_file : NULL,
                        has_ini ? &w->ini : NULL, w->key, err);
  if (rc < 0)
    whom_free(w);
  return rc;
}

void whom_free(struct whom *w)
{
  lls_ini_free(&w->ini);
}

static int ask_somebody(const struct whatif_options *o, struct running *out,
                        struct lls_error *err)
{
  struct whom w;
  int rc = whom_find(o, &w, err);
  if (rc < 0)
    return rc;
  rc = ask_server(&w, out, err);
  whom_free(&w);
  return rc;
}

static int read_files(const struct whatif_options *o, struct running *out,
                      struct lls_error *err)
{
  out->history = strdup(o->history);
  out->idle = true;
  out->here = o->running[0] != '\0';
  return o->running[0] != '\0' ? read_config(o->running, out, err) : 0;
}

int running_ask(const struct whatif_options *o, struct running *out,
                struct lls_error *err)
{
  *out = (struct running){.config = strdup(config_of(o).path), .told.fd = -1};
  int rc = o->history[0] != '\0' ? read_files(o, out, err) : ask_somebody(o, out, err);
  if (rc == 0 && (out->config == NULL || out->history == NULL))
    rc = lls_fail(err, -ENOMEM, "no memory");
  if (rc == 0)
    rc = read_header(out, err);
  if (rc < 0)
    running_free(out);
  return rc;
}

void running_free(struct running *r)
{
  nameless_close(&r->told);
  free(r->config);
  free(r->name);
  free(r->settings);
  free(r->history);
  free(r->profile);
  *r = (struct running){0};
}
