/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of an instance for an arrival; see placing.h. */
#include "core/loop/placing.h"

#include <errno.h>

#include "core/base/error.h"
#include "core/config/instance_list.h"
#include "core/engine/engine.h"
#include "core/instance/request.h"
#include "core/instance/step_thread.h"
#include "core/loop/loop_internal.h"

#define FIRST_ANSWER 256  /* tokens of an answer, while none has ended yet */
#define TRUSTED      1024 /* tokens that count as found cached before any was */

/* A session's tokens cached on an instance count so many times: elsewhere this turn
 * computes them again, so does each later turn of a session that moves, and two caches
 * have them. 4 had the best hits and times of 1, 2 and 4 (experiments/results/
 * instances-2026-11-30.md). */
#define SESSION_WEIGHT 4

/* Most blocks of an instance that main remembers: 16 MiB. */
#define SENT_BLOCKS (UINT64_C(1) << 20)

int lls_placing_init(struct lls_loop *l, struct lls_error *err)
{
  const struct lls_engine *e = l->threads[l->mine].instance.engine;
  const struct lls_pool_shape *shape = lls_engine_pool_shape(e);
  uint64_t blocks = l->max_context / shape->block_tokens + 1;
  uint64_t units = lls_engine_units_for(e, l->max_context);
  uint64_t tiers = (uint64_t)shape->device_units + shape->host_units;
  uint64_t held = tiers * blocks / (units > 0 ? units : 1);
  held = held < SENT_BLOCKS ? held : SENT_BLOCKS;
  int rc = 0;
  for (uint32_t i = 0; i < l->n && rc == 0; i++)
    rc = lls_sent_init(&l->threads[i].sent, held);
  return rc < 0 ? lls_fail(err, rc, "out of memory for the keys of %llu blocks",
                           (unsigned long long)held)
                : 0;
}

/* The work that waits on an instance. */
struct work {
  uint64_t prompt_tokens; /* not computed yet */
  uint64_t requests;      /* that it has, or will get from its inbox */
  double trust;           /* part of the tokens found in `sent` that were found cached */
};

/* Adds the answers of the instance to `tokens` and `answers`. */
static struct work work_of(struct lls_step_thread *r, uint64_t *tokens, uint64_t *answers)
{
  struct lls_loop_status s;
  lls_step_thread_status(r, &s);
  *tokens += s.generated_tokens;
  for (uint32_t i = 0; i <= LLS_FINISH_ERROR; i++)
    *answers += s.finished[i];
  return (struct work){
      .prompt_tokens = s.pending_tokens + (r->posted_tokens - s.prompt_tokens),
      .requests = (uint64_t)s.waiting + s.running + s.preempted + (r->posted - s.arrived),
      .trust = s.shared_tokens < r->found_tokens
                   ? (double)(TRUSTED + s.shared_tokens) / (TRUSTED + r->found_tokens)
                   : 1};
}

static bool is_open(const struct lls_step_thread *r)
{
  return r->instance.info.role != LLS_ROLE_DECODE &&
         !atomic_load(&r->instance.health.broken) &&
         !atomic_load(&r->instance.health.leaving);
}

/* Returns how many tokens of the prompt were sent to the instance before. At least one
 * is always computed. */
static uint32_t found_tokens(const struct lls_step_thread *r, const struct lls_live *live)
{
  uint32_t blocks = r->sent.all != NULL
                        ? lls_sent_find(&r->sent, live->keys.all, live->view.n_keys)
                        : 0;
  uint32_t tokens = blocks * live->keys.block_tokens;
  return tokens < live->view.prompt_tokens ? tokens : live->view.prompt_tokens - 1;
}

/* Returns the work of computing the request's prompt on the instance, less what is cached
 * there: less than 0 if that counts several times. */
static int64_t prompt_work(const struct lls_step_thread *r, const struct lls_live *live,
                           double trust)
{
  double cached = trust * found_tokens(r, live);
  if (live->sessions != NULL)
    cached *= SESSION_WEIGHT;
  return (int64_t)live->view.prompt_tokens - (int64_t)cached;
}

/* Chooses the instance with the least work; of equal ones that which has had the fewest
 * requests. live: NULL if no cache is to count. */
static struct lls_step_thread *least(struct lls_loop *l, const struct lls_live *live)
{
  struct work works[LLS_MAX_INSTANCES];
  uint64_t tokens = 0, answers = 0;
  int64_t least_work = INT64_MAX;
  struct lls_step_thread *best = &l->threads[0];
  for (uint32_t i = 0; i < l->n; i++)
    works[i] = work_of(&l->threads[i], &tokens, &answers);
  uint64_t answer = answers > 0 ? tokens / answers : FIRST_ANSWER;
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_step_thread *r = &l->threads[i];
    if (!is_open(r))
      continue;
    int64_t work = (int64_t)(works[i].prompt_tokens + works[i].requests * answer / 2);
    if (live != NULL)
      work += prompt_work(r, live, works[i].trust);
    if (work > least_work || (work == least_work && r->posted >= best->posted))
      continue;
    least_work = work;
    best = r;
  }
  return best;
}

/* Returns the instance that the hash of the session's name gives, or NULL: the request is
 * of no session. */
static struct lls_step_thread *by_session(struct lls_loop *l, const struct lls_live *live)
{
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  uint32_t open[LLS_MAX_INSTANCES], n = 0;
  if (live->sessions == NULL)
    return NULL;
  for (const char *c = live->sessions->view.name; *c != '\0'; c++)
    h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3); /* FNV-1a */
  for (uint32_t i = 0; i < l->n; i++)
    if (is_open(&l->threads[i]))
      open[n++] = i;
  return n > 0 ? &l->threads[open[(h ^ h >> 32) % n]] : NULL;
}

static struct lls_step_thread *choose(struct lls_loop *l, const struct lls_live *live)
{
  struct lls_step_thread *r =
      l->placing == LLS_PLACING_BY_SESSION ? by_session(l, live) : NULL;
  return r != NULL ? r : least(l, l->placing == LLS_PLACING_BY_WORK ? live : NULL);
}

static void count(struct lls_step_thread *r, uint32_t prompt_tokens)
{
  r->posted++;
  r->posted_tokens += prompt_tokens;
}

struct lls_step_thread *lls_placing_choose(struct lls_loop *l, struct lls_live *live)
{
  struct lls_step_thread *r = &l->threads[0];
  LLS_ON_MAIN(l);
  if (l->n > 1) {
    lls_live_name_blocks(live);
    r = choose(l, live);
    r->found_tokens += found_tokens(r, live);
    if (r->sent.all != NULL)
      lls_sent_note(&r->sent, live->keys.all, live->view.n_keys);
  }
  count(r, live->view.prompt_tokens);
  return r;
}

void lls_placing_note(struct lls_loop *l, const struct lls_live *live)
{
  const struct lls_request *v = &live->view;
  LLS_ON_MAIN(l);
  if (l->n == 1 || v->instance >= l->n)
    return;
  struct lls_sent_keys *sent = &l->threads[v->instance].sent;
  if (sent->all != NULL)
    lls_sent_note(sent, live->keys.all, lls_live_cached_keys(live));
}

struct lls_step_thread *lls_placing_again(struct lls_loop *l, uint32_t prompt_tokens)
{
  struct lls_step_thread *r = least(l, NULL);
  if (!is_open(r))
    return NULL;
  count(r, prompt_tokens);
  return r;
}
