/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs llmserve-whatif, which simulates how other policies would have served the recent
 * traffic. It is a process at idle priority with bounded time and memory. It reads the
 * traffic and the running configuration from two anonymous files and writes its answer
 * into a third. The server neither waits for it nor shares other data with it.
 *
 *   ask --> the history is written, on a thread of the pool --> the process runs
 *       --> it and its messages have ended --> state, and s->whatif.ended
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/record/history.h"
#include "core/serve/daemon.h"

#define PROGRAM   "llmserve-whatif"
#define ARGUMENTS 24
/* The child's first descriptor of the files, which are in the order of WHATIF_HISTORY
 * and so on. */
#define FIRST_FILE 3
#define PATH_OF(N) "/proc/self/fd/" #N

/* ---- its end ----------------------------------------------------------------------- */

static void close_files(struct whatif *w)
{
  for (int i = 0; i < WHATIF_FILES; i++) {
    if (w->files[i] >= 0)
      close(w->files[i]);
    w->files[i] = -1;
  }
}

static void fail(struct whatif *w, const char *why)
{
  w->state.stage = LLS_WHATIF_FAILED;
  snprintf(w->state.reason, sizeof w->state.reason, "%s", why);
}

static void take_answer(struct whatif *w)
{
  json_error_t why;
  lseek(w->files[WHATIF_ANSWER], 0, SEEK_SET);
  w->state.answer = json_loadfd(w->files[WHATIF_ANSWER], 0, &why);
  w->state.stage = LLS_WHATIF_DONE;
  w->state.progress = 1;
  if (w->state.answer == NULL)
    fail(w, "the answer cannot be read");
}

/* Ends a run, after the process and its pipe were closed. */
static void end(struct server *s)
{
  struct whatif *w = &s->whatif;
  if (w->open > 0)
    return;
  if (w->status == 0 && w->measures)
    w->state.stage = LLS_WHATIF_NONE;
  else if (w->status == 0)
    take_answer(w);
  else
    fail(w, w->given_up ? "it was given up" : w->line);
  close_files(w);
  if (w->ended != NULL && !s->closing)
    w->ended(s);
}

static void on_closed(uv_handle_t *handle)
{
  struct server *s = handle->data;
  s->whatif.open--;
  end(s);
}

static void on_exit_of_child(uv_process_t *child, int64_t status, int signal)
{
  struct server *s = child->data;
  s->whatif.status = signal != 0 ? -1 : (int)status;
  if (signal != 0 && !s->whatif.given_up)
    snprintf(s->whatif.line, sizeof s->whatif.line, PROGRAM " was ended by %s",
             strsignal(signal));
  uv_close((uv_handle_t *)child, on_closed);
}

/* ---- stderr: progress, and at the end perhaps why it failed ----------------------- */

static void take_line(struct whatif *w)
{
  static const char name[] = PROGRAM ": ";
  char *text = w->line;
  unsigned at, n;
  if (strncmp(text, name, sizeof name - 1) == 0)
    memmove(text, text + sizeof name - 1, strlen(text + sizeof name - 1) + 1);
  if (sscanf(text, "%u of %u:", &at, &n) == 2 && at > 0 && n > 0)
    w->state.progress = (double)(at - 1) / n;
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer)
{
  struct whatif *w = &((struct server *)handle->data)->whatif;
  (void)wanted;
  *buffer = uv_buf_init(w->read, sizeof w->read);
}

static void on_said(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
  struct whatif *w = &((struct server *)stream->data)->whatif;
  if (n < 0) {
    uv_close((uv_handle_t *)stream, on_closed);
    return;
  }
  for (ssize_t i = 0; i < n; i++) {
    if (w->line_ended)
      w->length = 0;
    w->line_ended = buffer->base[i] == '\n';
    if (!w->line_ended && w->length < sizeof w->line - 1)
      w->line[w->length++] = buffer->base[i];
    w->line[w->length] = '\0';
    if (w->line_ended)
      take_line(w);
  }
}

/* ---- its start --------------------------------------------------------------------- */

/* Finds llmserve-whatif next to this program, else in PATH. */
static void find_program(char *path, size_t size)
{
  char own[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
  own[n > 0 ? n : 0] = '\0';
  char *name = strrchr(own, '/');
  int length = name != NULL ? (int)(name + 1 - own) : 0;
  if (snprintf(path, size, "%.*s" PROGRAM, length, own) >= (int)size ||
      access(path, X_OK) < 0)
    snprintf(path, size, PROGRAM);
}

/* Adds each line as an argument; the text is cut at its line ends. */
static size_t add_lines(char **arguments, size_t n, const char *option, char *lines)
{
  char *rest;
  if (lines[0] == '\0')
    return n;
  arguments[n++] = (char *)option;
  for (char *line = strtok_r(lines, "\n", &rest); line != NULL && n < ARGUMENTS - 1;
       line = strtok_r(NULL, "\n", &rest))
    arguments[n++] = line;
  return n;
}

static void list_arguments(struct server *s, char *program, char *arguments[ARGUMENTS])
{
  struct whatif *w = &s->whatif;
  char *const fixed[] = {program,
                         (char *)"--config",
                         (char *)s->config->ini.path,
                         (char *)"--history",
                         (char *)PATH_OF(3),
                         (char *)"--running",
                         (char *)PATH_OF(4),
                         (char *)"--json",
                         (char *)PATH_OF(5)};
  size_t n = sizeof fixed / sizeof *fixed;
  memcpy(arguments, fixed, sizeof fixed);
  if (w->measures)
    arguments[n++] = (char *)"--measure";
  if (w->policies[0] != '\0') {
    arguments[n++] = (char *)"--policies";
    arguments[n++] = w->policies;
  }
  if (w->objective[0] != '\0') {
    arguments[n++] = (char *)"--objective";
    arguments[n++] = w->objective;
  }
  n = add_lines(arguments, n, "--goodput", w->goodput);
  arguments[n] = NULL;
}

static int spawn(struct server *s)
{
  struct whatif *w = &s->whatif;
  char program[PATH_MAX], *arguments[ARGUMENTS];
  uv_stdio_container_t files[FIRST_FILE + WHATIF_FILES] = {
      [2] = {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
             .data.stream = (uv_stream_t *)&w->said}};
  for (int i = 0; i < WHATIF_FILES; i++)
    files[FIRST_FILE + i] =
        (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = w->files[i]};
  find_program(program, sizeof program);
  list_arguments(s, program, arguments);
  const uv_process_options_t options = {.file = program,
                                        .args = arguments,
                                        .stdio = files,
                                        .stdio_count = FIRST_FILE + WHATIF_FILES,
                                        .exit_cb = on_exit_of_child};
  uv_pipe_init(&s->uv, &w->said, 0);
  w->child.data = w->said.data = s;
  w->open = 2;
  w->length = 0;
  w->line[0] = '\0';
  int rc = uv_spawn(&s->uv, &w->child, &options);
  if (rc == 0)
    rc = uv_read_start((uv_stream_t *)&w->said, on_alloc, on_said);
  return rc;
}

static void on_written(uv_work_t *work, int status)
{
  struct server *s = work->data;
  struct whatif *w = &s->whatif;
  w->writing = false;
  w->status = -1;
  int rc = status < 0 ? status : w->written;
  if (rc == 0 && !s->closing && !w->given_up)
    rc = spawn(s);
  else if (rc == 0)
    rc = UV_ECANCELED;
  if (rc == 0)
    return;
  snprintf(w->line, sizeof w->line, PROGRAM " does not start: %s", uv_strerror(rc));
  if (w->open > 0) { /* libuv wants both closed even if spawn failed */
    uv_close((uv_handle_t *)&w->child, on_closed);
    uv_close((uv_handle_t *)&w->said, on_closed);
  } else {
    end(s);
  }
}

/* ---- what it gets ------------------------------------------------------------------ */

static int put(int fd, const char *data, size_t length)
{
  while (length > 0) {
    ssize_t n = write(fd, data, length);
    if (n < 0 && errno != EINTR)
      return -errno;
    data += n > 0 ? n : 0;
    length -= n > 0 ? (size_t)n : 0;
  }
  return 0;
}

/* Writes the history on a pool thread, since a full history is 10 MB. */
static void on_write(uv_work_t *work)
{
  struct server *s = work->data;
  struct lls_text text = {0};
  lls_history_write(s->history, &text);
  lls_loop_write_steps(s->loop, &text);
  s->whatif.written = text.failed
                          ? -ENOMEM
                          : put(s->whatif.files[WHATIF_HISTORY], text.data, text.length);
  lls_text_free(&text);
}

static int write_running(struct server *s)
{
  struct lls_loop_status status;
  json_t *config = lls_admin_config(s->config);
  lls_loop_status(s->loop, &status);
  if (config == NULL)
    return -ENOMEM;
  json_object_set_new(config, "idle",
                      json_boolean(status.running == 0 && status.waiting == 0));
  char *text = json_dumps(config, JSON_COMPACT);
  int rc = text != NULL ? put(s->whatif.files[WHATIF_RUNNING_CONFIG], text, strlen(text))
                        : -ENOMEM;
  free(text);
  json_decref(config);
  return rc;
}

static int open_files(struct whatif *w)
{
  int rc = 0;
  for (int i = 0; i < WHATIF_FILES; i++) {
    w->files[i] = memfd_create(PROGRAM, MFD_CLOEXEC);
    rc = w->files[i] < 0 ? -errno : rc;
  }
  return rc;
}

static void keep_question(struct whatif *w, const struct lls_whatif_question *q)
{
  snprintf(w->policies, sizeof w->policies, "%s", q->policies);
  snprintf(w->objective, sizeof w->objective, "%s", q->objective);
  snprintf(w->goodput, sizeof w->goodput, "%s", q->goodput);
}

static bool fits(const struct whatif *w, const struct lls_whatif_question *q)
{
  return strlen(q->policies) < sizeof w->policies &&
         strlen(q->objective) < sizeof w->objective &&
         strlen(q->goodput) < sizeof w->goodput;
}

static int can_ask(const struct server *s, const struct lls_whatif_question *q,
                   struct lls_error *err)
{
  if (server_whatif_runs(s))
    return lls_fail(err, -EBUSY,
                    "another question is being answered: GET /admin/whatif "
                    "tells how far it is, DELETE gives it up");
  if (s->history == NULL)
    return lls_fail(err, -ENOENT,
                    "no history of requests is kept: [server] history is 0");
  if (s->config->server.sandbox == LLS_SANDBOX_ON)
    return lls_fail(err, -ENOENT,
                    "[server] sandbox = on runs no other program, and llmserve-whatif is "
                    "one: set it to auto, or run llmserve-whatif yourself");
  if (s->config->ini.path == NULL || s->config->ini.path[0] == '\0')
    return lls_fail(err, -ENOENT,
                    "the server was started without a configuration file, "
                    "which a simulation begins with");
  return fits(&s->whatif, q) ? 0 : lls_fail(err, -E2BIG, "the question is too long");
}

/* ---- for others -------------------------------------------------------------------- */

bool server_whatif_runs(const struct server *s)
{
  return s->whatif.state.stage == LLS_WHATIF_RUNNING;
}

int server_ask_whatif(struct server *s, const struct lls_whatif_question *q,
                      bool measures, void (*ended)(struct server *),
                      struct lls_error *err)
{
  struct whatif *w = &s->whatif;
  int rc = can_ask(s, q, err);
  if (rc < 0)
    return rc;
  json_decref(w->state.answer);
  *w = (struct whatif){.measures = measures, .ended = ended};
  keep_question(w, q);
  w->work.data = s;
  rc = open_files(w);
  if (rc == 0)
    rc = write_running(s);
  if (rc == 0)
    rc = uv_queue_work(&s->uv, &w->work, on_write, on_written);
  if (rc < 0) {
    close_files(w);
    return lls_fail(err, rc, PROGRAM " does not start: %s", strerror(-rc));
  }
  w->writing = true;
  w->state.stage = LLS_WHATIF_RUNNING;
  w->state.began_s = (int64_t)time(NULL);
  return 0;
}

void server_give_up_whatif(struct server *s)
{
  if (!server_whatif_runs(s))
    return;
  s->whatif.given_up = true;
  if (!s->whatif.writing && !uv_is_closing((uv_handle_t *)&s->whatif.child))
    uv_process_kill(&s->whatif.child, SIGKILL);
}

void server_free_whatif(struct server *s)
{
  json_decref(s->whatif.state.answer);
}
