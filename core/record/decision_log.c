/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the decision log; see decision_log.h. The step thread makes lines and passes
 * them through one buffer to the writer thread, which takes the whole buffer at once. A
 * failure is an atomic that the step thread checks first.
 */
#include "core/record/decision_log.h"

#include <llmserve/scheduler.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/obs/log.h"

#define WAKE_BYTES (64u << 10) /* bytes of items that wake the writer */
#define WAKE_MS    200         /* longest time that items wait for the writer */
#define MOST_BYTES (16u << 20) /* most that may wait to be written */

struct lls_decision_log {
  const struct lls_log *log;
  char *path;
  int fd;
  bool wait;
  /* [step] */
  struct lls_decision_numbers numbers;
  struct lls_text items,
      previous; /* items: of the current plan; previous: of the plan written last */
  struct lls_text lines; /* made, not yet passed to the writer */
  struct lls_text ends;  /* E lines to follow the current plan */
  int64_t planned_ns, written_ns;
  bool pending; /* the current plan's duration is not known yet */
  /* [step] and the writer's thread */
  pthread_t writer;
  pthread_mutex_t mutex;
  pthread_cond_t filled, emptied;
  struct lls_text passed; /* under the mutex, like `ending` */
  bool ending;
  atomic_int failure; /* 0, or -errno: recording has ended */
};

/* ---- the writer -------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t length)
{
  while (length > 0) {
    ssize_t n = write(fd, data, length);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : -EIO;
    data += n;
    length -= (size_t)n;
  }
  return 0;
}

static void give_up(struct lls_decision_log *d, int rc)
{
  int none = 0;
  if (!atomic_compare_exchange_strong(&d->failure, &none, rc) || d->log == NULL)
    return;
  lls_log(d->log, LLS_LOG_ERROR, "decisions", "%s: %s; recording ends here", d->path,
          rc == -ENOBUFS ? "the disk is slower than the decisions" : strerror(-rc));
}

static void wait_for_lines(struct lls_decision_log *d)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += WAKE_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  if (!d->ending && d->passed.length < WAKE_BYTES)
    pthread_cond_timedwait(&d->filled, &d->mutex, &until);
}

static void *run_writer(void *context)
{
  struct lls_decision_log *d = context;
  struct lls_text lines = {0};
  off_t whole = 0;
  bool over = false;
  while (!over) {
    pthread_mutex_lock(&d->mutex);
    wait_for_lines(d);
    struct lls_text taken = d->passed;
    d->passed = lines;
    lines = taken;
    over = d->ending;
    pthread_cond_signal(&d->emptied);
    pthread_mutex_unlock(&d->mutex);
    if (lines.length > 0 && atomic_load(&d->failure) == 0) {
      int rc = write_all(d->fd, lines.data, lines.length);
      whole += rc == 0 ? (off_t)lines.length : 0;
      if (rc < 0) {
        give_up(d, rc);
        if (ftruncate(d->fd, whole) < 0)
          whole = 0; /* a pipe cannot be cut back */
      }
    }
    lls_text_clear(&lines);
  }
  lls_text_free(&lines);
  return NULL;
}

/* ---- passing on -------------------------------------------------------------------- */

/* Returns false if the writer is behind and the caller must not wait for it. */
static bool make_room(struct lls_decision_log *d)
{
  while (d->wait && d->passed.length > MOST_BYTES && atomic_load(&d->failure) == 0)
    pthread_cond_wait(&d->emptied, &d->mutex);
  return d->passed.length <= MOST_BYTES;
}

static void pass_on(struct lls_decision_log *d)
{
  if (d->lines.length == 0)
    return;
  pthread_mutex_lock(&d->mutex);
  bool room = make_room(d);
  if (room)
    lls_text_append(&d->passed, d->lines.data, d->lines.length);
  bool failed = d->passed.failed || d->lines.failed;
  if (d->passed.length >= WAKE_BYTES)
    pthread_cond_signal(&d->filled);
  pthread_mutex_unlock(&d->mutex);
  if (!room || failed)
    give_up(d, failed ? -ENOMEM : -ENOBUFS);
  lls_text_clear(&d->lines);
}

static bool recording(struct lls_decision_log *d)
{
  return atomic_load_explicit(&d->failure, memory_order_relaxed) == 0;
}

/* ---- lines ------------------------------------------------------------------------- */

static bool as_before(const struct lls_decision_log *d)
{
  return d->previous.length == d->items.length &&
         memcmp(d->previous.data, d->items.data, d->items.length) == 0;
}

/* Writes the current plan with its duration, then the requests that ended in its
 * step. */
static void end_plan(struct lls_decision_log *d, int64_t duration_ns)
{
  if (!d->pending)
    return;
  d->pending = false;
  if (d->previous.length > 0 && as_before(d))
    lls_text_printf(&d->lines, "= %" PRId64 " %" PRId64 "\n",
                    d->planned_ns - d->written_ns, duration_ns);
  else
    lls_text_printf(&d->lines, "P %" PRId64 " %" PRId64 "%s\n", d->planned_ns,
                    duration_ns, d->items.data);
  d->written_ns = d->planned_ns;
  struct lls_text before = d->previous;
  d->previous = d->items;
  d->items = before;
  if (d->ends.length > 0)
    lls_text_append(&d->lines, d->ends.data, d->ends.length);
  lls_text_clear(&d->ends);
  pass_on(d);
}

static void add_hashes(const struct lls_request *r, struct lls_text *out)
{
  uint32_t hash = LLS_DECISION_HASH_BEGIN;
  for (uint32_t i = 0; r->tokens != NULL && i < r->prompt_tokens; i++)
    if (lls_decision_hash(&hash, r->tokens[i], i))
      lls_text_printf(out, " %08" PRIx32, hash);
}

void lls_decision_log_arrival(struct lls_decision_log *d, const struct lls_request *r)
{
  if (!recording(d))
    return;
  end_plan(d, 0);
  lls_decision_write_arrival(lls_decision_number_new(&d->numbers, r->id), r, &d->lines);
  add_hashes(r, &d->lines);
  lls_text_puts(&d->lines, "\n");
  pass_on(d);
}

void lls_decision_log_plan(struct lls_decision_log *d, int64_t now_ns,
                           const struct lls_plan *plan)
{
  if (!recording(d) || plan->n_items == 0)
    return;
  end_plan(d, 0);
  lls_decision_items(&d->numbers, plan, &d->items);
  d->planned_ns = now_ns;
  d->pending = true;
}

void lls_decision_log_step(struct lls_decision_log *d, const struct lls_step_report *r)
{
  if (recording(d))
    end_plan(d, r->ended_ns - d->planned_ns);
}

void lls_decision_log_finish(struct lls_decision_log *d, const struct lls_request *r)
{
  if (!recording(d))
    return;
  lls_text_printf(d->pending ? &d->ends : &d->lines, "E %" PRIu64 " %u %u\n",
                  lls_decision_number(&d->numbers, r->id), r->generated_tokens,
                  r->finish_reason);
  if (!d->pending)
    pass_on(d);
}

void lls_decision_log_begin(struct lls_decision_log *d, const struct lls_loop_policies *p,
                            const struct lls_engine *engine, uint64_t seed)
{
  lls_decision_write_header(p, engine, d->numbers.max_items, seed, &d->lines);
  pass_on(d);
}

/* ---- the observer, create and destroy ---------------------------------------------- */

static void on_arrival(void *context, const struct lls_request *r)
{
  lls_decision_log_arrival(context, r);
}

static void on_plan(void *context, const struct lls_step_view *view,
                    const struct lls_plan *plan, bool own)
{
  (void)own;
  lls_decision_log_plan(context, view->now_ns, plan);
}

static void on_step(void *context, const struct lls_step_report *report,
                    const struct lls_loop_census *census)
{
  (void)census;
  lls_decision_log_step(context, report);
}

static void on_finish(void *context, const struct lls_request *r)
{
  lls_decision_log_finish(context, r);
}

struct lls_loop_observer lls_decision_log_observer(struct lls_decision_log *d)
{
  return (struct lls_loop_observer){.context = d,
                                    .on_arrival = on_arrival,
                                    .on_plan = on_plan,
                                    .on_step = on_step,
                                    .on_finish = on_finish};
}

static void release(struct lls_decision_log *d)
{
  if (d->fd >= 0)
    close(d->fd);
  lls_decision_numbers_free(&d->numbers);
  lls_text_free(&d->items);
  lls_text_free(&d->previous);
  lls_text_free(&d->lines);
  lls_text_free(&d->ends);
  lls_text_free(&d->passed);
  free(d->path);
  free(d);
}

int lls_decision_log_create(const struct lls_decision_log_options *o,
                            struct lls_decision_log **out, struct lls_error *err)
{
  struct lls_decision_log *d = calloc(1, sizeof *d);
  if (d == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a decision log");
  d->log = o->log;
  d->wait = o->wait;
  d->path = strdup(o->path);
  d->fd = open(o->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int rc = 0;
  if (d->fd < 0)
    rc = lls_fail(err, -errno, "%s: cannot be written: %s", o->path, strerror(errno));
  else if (d->path == NULL || lls_decision_numbers_init(&d->numbers, o->max_requests) < 0)
    rc = lls_fail(err, -ENOMEM, "no memory for a decision log");
  pthread_mutex_init(&d->mutex, NULL);
  pthread_cond_init(&d->filled, NULL);
  pthread_cond_init(&d->emptied, NULL);
  if (rc == 0) {
    int failed = pthread_create(&d->writer, NULL, run_writer, d);
    if (failed != 0)
      rc = lls_fail(err, -failed, "no thread for a decision log: %s", strerror(failed));
  }
  if (rc < 0)
    release(d);
  else
    *out = d;
  return rc;
}

int lls_decision_log_destroy(struct lls_decision_log *d, struct lls_error *err)
{
  if (d == NULL)
    return 0;
  if (recording(d))
    end_plan(d, 0);
  pthread_mutex_lock(&d->mutex);
  d->ending = true;
  pthread_cond_signal(&d->filled);
  pthread_mutex_unlock(&d->mutex);
  pthread_join(d->writer, NULL);
  int rc = atomic_load(&d->failure);
  if (rc < 0)
    lls_fail(err, rc, "%s: the decision log could not be written: %s", d->path,
             strerror(-rc));
  release(d);
  return rc;
}
