/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that a child calls while it plans: those of <llmserve/policy/step.h> and
 * of the cache, cost and random services, with the requests' numbers for requests. What
 * the core would refuse as a plan is refused here, with a sentence for the author.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pipe.h"

struct call {
  struct pipe *pipe;
  const json_t *text; /* ["name", argument, ...] */
  char *why;
  size_t n;
};

static __attribute__((format(printf, 2, 3))) json_t *wrong(struct call *c,
                                                           const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(c->why, c->n, format, args);
  va_end(args);
  return NULL;
}

/* Stores argument i, a whole number of at most 32 bits. */
static bool number(struct call *c, size_t i, uint32_t *out)
{
  const json_t *given = json_array_get(c->text, i);
  json_int_t value = json_integer_value(given);
  if (!json_is_integer(given) || value < 0 || value > UINT32_MAX) {
    wrong(c, "argument %zu is not a number of 0 to 4294967295", i);
    return false;
  }
  *out = (uint32_t)value;
  return true;
}

/* Returns the living request whose id is argument 1. */
static const struct lls_request *request(struct call *c)
{
  const struct lls_host *host = c->pipe->base.host;
  const json_t *given = json_array_get(c->text, 1);
  json_int_t id = json_integer_value(given);
  const struct lls_request *r =
      json_is_integer(given) && id >= 0 ? host->find(host->context, (uint64_t)id) : NULL;
  if (r == NULL)
    wrong(c, "argument 1 is not the id of a request that is alive");
  return r;
}

static json_t *done(void)
{
  return json_true();
}

/* ---- the plan ---------------------------------------------------------------------- */

static json_t *run(struct call *c)
{
  struct lls_pol_step *s = &c->pipe->step;
  uint32_t tokens;
  const struct lls_request *r = request(c);
  if (r == NULL || !number(c, 2, &tokens))
    return NULL;
  if (tokens == 0 || tokens > lls_request_pending(r))
    return wrong(
        c, "%" PRIu32 " tokens of request %" PRIu64 ", which has %" PRIu32 " to compute",
        tokens, r->id, lls_request_pending(r));
  if (tokens > s->tokens || s->sequences == 0)
    return wrong(c,
                 "%" PRIu32 " tokens in a step that has room for %" PRIu32
                 " more, of %" PRIu32 " sequences",
                 tokens, s->tokens, s->sequences);
  lls_pol_step_run(s, r, tokens);
  return done();
}

static json_t *reject(struct call *c)
{
  const struct lls_request *r = request(c);
  if (r == NULL)
    return NULL;
  lls_plan_reject(c->pipe->step.plan, r, LLS_FINISH_REJECTED);
  return done();
}

static json_t *preempt(struct call *c)
{
  const struct lls_request *r = request(c);
  return r != NULL ? json_boolean(lls_pol_step_take_off(&c->pipe->step, r)) : NULL;
}

/* ["grow", place in view.running, tokens] */
static json_t *grow(struct call *c)
{
  struct lls_pol_step *s = &c->pipe->step;
  uint32_t i, tokens;
  if (!number(c, 1, &i) || !number(c, 2, &tokens))
    return NULL;
  return json_boolean(i < s->tail && tokens > 0 && lls_pol_step_grow(s, i, tokens));
}

/* ---- memory ------------------------------------------------------------------------ */

static json_t *pending(struct call *c)
{
  const struct lls_request *r = request(c);
  return r != NULL ? json_integer(lls_pol_step_pending(&c->pipe->step, r)) : NULL;
}

static json_t *answer_of(enum lls_pol_step_answer answer)
{
  static const char *const names[] = {"yes", "not_now", "rejected"};
  return json_string(names[answer]);
}

static json_t *admit(struct call *c)
{
  uint32_t tokens;
  const struct lls_request *r = request(c);
  return r != NULL && number(c, 2, &tokens)
             ? answer_of(lls_pol_step_admit(&c->pipe->step, r, tokens))
             : NULL;
}

static json_t *bring_back(struct call *c)
{
  uint32_t tokens;
  const struct lls_request *r = request(c);
  return r != NULL && number(c, 2, &tokens)
             ? answer_of(lls_pol_step_bring_back(&c->pipe->step, r, tokens))
             : NULL;
}

static json_t *reserve(struct call *c)
{
  uint32_t tokens;
  const struct lls_request *r = request(c);
  return r != NULL && number(c, 2, &tokens)
             ? json_integer(lls_pol_step_reserve(&c->pipe->step, r, tokens))
             : NULL;
}

static json_t *mark(struct call *c)
{
  const struct lls_cache_service *cache = c->pipe->step.cache;
  return json_integer(cache->mark(cache->context));
}

static json_t *rollback(struct call *c)
{
  const struct lls_cache_service *cache = c->pipe->step.cache;
  uint32_t at;
  return number(c, 1, &at) ? json_integer(cache->rollback(cache->context, at)) : NULL;
}

static json_t *units(struct call *c)
{
  const struct lls_pol_step *s = &c->pipe->step;
  return json_pack("{s:I, s:I}", "free", (json_int_t)lls_pol_step_free_units(s), "total",
                   (json_int_t)s->total_units);
}

static json_t *left(struct call *c)
{
  const struct lls_pol_step *s = &c->pipe->step;
  return json_pack("{s:I, s:I, s:I, s:I}", "tokens", (json_int_t)s->tokens, "sequences",
                   (json_int_t)s->sequences, "running", (json_int_t)s->tail, "preempted",
                   (json_int_t)s->preempted);
}

/* ---- other services ---------------------------------------------------------------- */

static json_t *prefill_ns(struct call *c)
{
  const struct lls_cost *cost = c->pipe->base.host->cost;
  uint32_t tokens, context;
  if (!number(c, 1, &tokens) || !number(c, 2, &context))
    return NULL;
  int64_t ns = cost->prefill_ns(cost->context, tokens, context);
  return ns == LLS_NEVER ? json_null() : json_integer(ns);
}

static json_t *decode_ns(struct call *c)
{
  const struct lls_cost *cost = c->pipe->base.host->cost;
  uint32_t context, n;
  if (!number(c, 1, &context) || !number(c, 2, &n))
    return NULL;
  int64_t ns = cost->decode_ns(cost->context, context, n);
  return ns == LLS_NEVER ? json_null() : json_integer(ns);
}

/* 63 bits: a JSON number has a sign. */
static json_t *random_bits(struct call *c)
{
  const struct lls_host *host = c->pipe->base.host;
  uint32_t stream;
  if (!number(c, 1, &stream))
    return NULL;
  return stream < 16
             ? json_integer((json_int_t)(host->random(host->context, stream) >> 1))
             : wrong(c, "there are 16 streams of random numbers, from 0");
}

json_t *pipe_call(struct pipe *p, const json_t *text, char *why, size_t n)
{
  static const struct {
    const char *name;
    json_t *(*carry_out)(struct call *);
  } all[] = {
      {"run", run},
      {"reject", reject},
      {"preempt", preempt},
      {"grow", grow},
      {"pending", pending},
      {"admit", admit},
      {"reserve", reserve},
      {"bring_back", bring_back},
      {"mark", mark},
      {"units", units},
      {"rollback", rollback},
      {"left", left},
      {"random", random_bits},
      {"prefill_ns", prefill_ns},
      {"decode_ns", decode_ns},
  };
  struct call c = {.pipe = p, .text = text, .why = why, .n = n};
  const char *name = json_string_value(json_array_get(text, 0));
  for (size_t i = 0; name != NULL && i < sizeof all / sizeof *all; i++)
    if (strcmp(all[i].name, name) == 0)
      return all[i].carry_out(&c);
  return wrong(&c, "it is no call of this scheduler (its README lists them)");
}
