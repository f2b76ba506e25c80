/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a model: this program again, with the same file and command line,
 * [models] only, and the settings below. It gets SIGTERM when this process dies (the
 * environment variable LLS_ROUTER, core/serve/router_process.c), and is in a session of
 * its own, so that Ctrl-C reaches this process alone, which stops it in order.
 */
#include "core/routing/routing_internal.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "core/base/error.h"

#define PROGRAM       "/proc/self/exe"
#define OWN_SETTINGS  12
#define OWN_ARGUMENTS (2 * OWN_SETTINGS + 5)

extern char **environ;

/* ---- arguments --------------------------------------------------------------------- */

struct arguments {
  char **list; /* (n), ended by NULL; all malloc'ed */
  size_t n;
  bool failed;
};

static void add(struct arguments *a, const char *text)
{
  char *copy = strdup(text);
  if (copy == NULL)
    a->failed = true;
  else
    a->list[a->n++] = copy;
}

static void __attribute__((format(printf, 2, 3)))
set(struct arguments *a, const char *format, ...)
{
  va_list values;
  char *text;
  va_start(values, format);
  if (vasprintf(&text, format, values) < 0)
    a->failed = true;
  else
    a->list[a->n++] = text;
  va_end(values);
}

static void free_arguments(struct arguments *a)
{
  for (size_t i = 0; i < a->n; i++)
    free(a->list[i]);
  free(a->list);
}

/* Sets the folder of what the model's process stores, which it creates; its ids then
 * begin with the model's code. */
static void set_state(struct arguments *a, const struct lls_hosted *model)
{
  const char *state = model->routing->config->server.state;
  if (state[0] == '\0')
    return;
  mkdir(state, 0700); /* the process says what is wrong with it */
  set(a, "--set=server.state=%s/%s", state, model->code);
  set(a, "--set=server.replica=%s", model->code);
}

static int list_arguments(const struct lls_model_process *p, struct arguments *a)
{
  const struct lls_hosted *model = p->model;
  const struct lls_config *c = p->routing->config;
  a->list = calloc(c->n_settings + OWN_ARGUMENTS, sizeof *a->list);
  if (a->list == NULL)
    return -ENOMEM;
  add(a, "llmserve");
  set(a, "--config=%s", p->routing->copy);
  for (size_t i = 0; i < c->n_settings; i++)
    set(a, "--set=%s", c->settings[i]);
  set(a, "--set=models.copy_of=%s", c->ini.path);
  set(a, "--set=models.only=%s", model->name);
  set(a, "--set=server.listen=unix:%s:0600", p->socket);
  set(a, "--set=server.admin_socket=%s", p->admin);
  add(a, "--set=server.any_model=true"); /* the router has looked at the name */
  add(a, "--set=server.replica=");
  add(a, "--set=tls.certificate=");
  add(a, "--set=tls.key=");
  add(a, "--set=tls.client_ca=");
  if (c->server.decisions[0] != '\0')
    set(a, "--set=server.decisions=%s.%s", c->server.decisions, model->code);
  set_state(a, model);
  return a->failed ? -ENOMEM : 0;
}

/* True for variables that tell the service manager's child what it is. */
static bool is_of_manager(const char *variable)
{
  static const char *const names[] = {"NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_",
                                      "LLS_ROUTER="};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(variable, names[i], strlen(names[i])) == 0)
      return true;
  return false;
}

static int list_environment(struct arguments *a)
{
  size_t n = 0;
  while (environ[n] != NULL)
    n++;
  a->list = calloc(n + 2, sizeof *a->list);
  if (a->list == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < n; i++)
    if (!is_of_manager(environ[i]))
      add(a, environ[i]);
  set(a, "LLS_ROUTER=%ld", (long)getpid());
  return a->failed ? -ENOMEM : 0;
}

/* ---- its life ---------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
  struct lls_model_process *p = handle->data;
  struct lls_routing *routing = p->routing;
  unlink(p->socket);
  unlink(p->admin);
  DL_DELETE(routing->processes, p);
  free(p);
  routing->n_processes--;
  lls_routing_check(routing);
}

static void on_ended(uv_process_t *handle, int64_t status, int signal)
{
  struct lls_model_process *p = handle->data;
  struct lls_hosted *model = p->model;
  uv_close((uv_handle_t *)handle, on_closed);
  if (model == NULL)
    return;
  model->process = NULL;
  p->model = NULL;
  p->ended(model, status, signal);
}

static int spawn(struct lls_model_process *p)
{
  struct arguments arguments = {0}, environment = {0};
  uv_stdio_container_t files[] = {{.flags = UV_IGNORE},
                                  {.flags = UV_INHERIT_FD, .data.fd = 1},
                                  {.flags = UV_INHERIT_FD, .data.fd = 2}};
  int rc = list_arguments(p, &arguments);
  if (rc == 0)
    rc = list_environment(&environment);
  const uv_process_options_t options = {.file = PROGRAM,
                                        .args = arguments.list,
                                        .env = environment.list,
                                        .flags = UV_PROCESS_DETACHED,
                                        .stdio = files,
                                        .stdio_count = 3,
                                        .exit_cb = on_ended};
  if (rc == 0)
    rc = uv_spawn(p->routing->options.uv, &p->handle, &options);
  free_arguments(&arguments);
  free_arguments(&environment);
  return rc;
}

int lls_model_process_start(struct lls_hosted *model,
                            void (*ended)(struct lls_hosted *, int64_t, int),
                            struct lls_error *err)
{
  struct lls_routing *routing = model->routing;
  struct lls_model_process *p = calloc(1, sizeof *p);
  if (p == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  unsigned number = routing->n_made++;
  p->routing = routing;
  p->model = model;
  p->ended = ended;
  snprintf(p->socket, sizeof p->socket, "%s/%u", routing->options.folder, number);
  snprintf(p->admin, sizeof p->admin, "%s/%u.admin", routing->options.folder, number);
  p->handle.data = p;
  DL_APPEND(routing->processes, p);
  routing->n_processes++;
  int rc = spawn(p);
  if (rc == 0) {
    model->process = p;
    return 0;
  }
  p->model = NULL;
  if (p->handle.type == UV_PROCESS) { /* libuv has initialised it */
    uv_close((uv_handle_t *)&p->handle, on_closed);
  } else {
    DL_DELETE(routing->processes, p);
    routing->n_processes--;
    free(p);
  }
  return lls_fail(err, rc, "a process for it does not start: %s", uv_strerror(rc));
}

void lls_model_process_stop(struct lls_model_process *p, bool force)
{
  if (p->stop_ms == 0)
    p->stop_ms = uv_now(p->routing->options.uv) + 1;
  uv_process_kill(&p->handle, force ? SIGKILL : SIGTERM);
}

size_t lls_model_process_memory(const struct lls_model_process *p)
{
  char path[64];
  size_t all = 0, resident = 0;
  snprintf(path, sizeof path, "/proc/%ld/statm", (long)uv_process_get_pid(&p->handle));
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return 0;
  if (fscanf(file, "%zu %zu", &all, &resident) != 2)
    resident = 0;
  fclose(file);
  return resident * (size_t)sysconf(_SC_PAGESIZE);
}
