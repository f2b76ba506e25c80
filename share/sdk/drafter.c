/*
 * example: guesses that the same two tokens are followed by the same token again. It
 * remembers the token behind each pair in a table of the request's own, which is filled
 * from its prompt and its answer.
 *
 * The odds that a guess is right are learnt from what the answers became, whether or not
 * a step verified the guess: a moving average for the first guess, the second, and so on,
 *
 *   odds += weight (right - odds)
 *
 * In a reload they pass to the next generation, through export and import.
 */
#include <llmserve/drafter.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS         4096 /* remembered for a request; a power of two */
#define PLACES        64   /* guesses with odds of their own */
#define AT_ONCE       1024 /* tokens of a prompt that one call reads */
#define STATE_VERSION 1

struct params {
  double weight;
};

struct pair {
  int32_t first, second, then;
};

struct text {    /* a request's tokens, as far as they were read */
  uint32_t read; /* tokens in the table */
  uint32_t length, n_guesses;
  int32_t guesses[PLACES]; /* (n_guesses) made when the request had `length` tokens */
  struct pair pairs[PAIRS];
};

struct state {
  const struct lls_host *host;
  struct params params;
  float odds[PLACES];
  struct text **by_slot; /* (engine->max_requests) NULL: no request */
};

/* ---- the table --------------------------------------------------------------------- */

static struct pair *pair_of(struct text *t, int32_t first, int32_t second)
{
  uint32_t hash = (uint32_t)first * 0x9E3779B1u ^ (uint32_t)second * 0x85EBCA6Bu;
  return &t->pairs[(hash >> 16) & (PAIRS - 1)];
}

/* Reads tokens that are not in the table yet, but not all of a long prompt in one call.
 * Returns true if it has read all of them. */
static bool read_text(struct text *t, const struct lls_request *r)
{
  uint32_t length = lls_request_length(r);
  uint32_t end = length - t->read > AT_ONCE ? t->read + AT_ONCE : length;
  for (; t->read < end; t->read++) {
    const int32_t *token = r->tokens + t->read;
    if (t->read >= 2)
      *pair_of(t, token[-2], token[-1]) = (struct pair){token[-2], token[-1], token[0]};
  }
  return t->read == length;
}

/* Compares the last guesses with the tokens that came in their places. */
static void learn(struct state *s, const struct text *t, const struct lls_request *r)
{
  uint32_t came = lls_request_length(r) - t->length;
  for (uint32_t i = 0; i < t->n_guesses && i < came; i++) {
    bool right = r->tokens[t->length + i] == t->guesses[i];
    s->odds[i] += (float)(s->params.weight * ((double)right - (double)s->odds[i]));
    if (!right)
      break;
  }
}

/* ---- guessing ---------------------------------------------------------------------- */

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  struct state *s = self;
  struct text *t = s->by_slot[r->slot];
  uint32_t length = lls_request_length(r);
  if (t == NULL)
    return 0;
  learn(s, t, r);
  t->n_guesses = 0;
  t->length = length;
  if (length < 2 || !read_text(t, r))
    return 0;
  int32_t first = r->tokens[length - 2], second = r->tokens[length - 1];
  while (t->n_guesses < out->max && t->n_guesses < PLACES) {
    const struct pair *p = pair_of(t, first, second);
    if (p->first != first || p->second != second)
      break;
    out->odds[t->n_guesses] = s->odds[t->n_guesses];
    out->tokens[t->n_guesses] = t->guesses[t->n_guesses] = p->then;
    t->n_guesses++;
    first = second;
    second = p->then;
  }
  return (int)t->n_guesses;
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

/* ---- life -------------------------------------------------------------------------- */

/* Without memory the request has no guesses. No token is negative, so that empty pairs
 * match nothing. */
static void on_arrival(void *self, const struct lls_request *r)
{
  struct text *t = calloc(1, sizeof *t);
  ((struct state *)self)->by_slot[r->slot] = t;
  for (uint32_t i = 0; t != NULL && i < PAIRS; i++)
    t->pairs[i].first = -1;
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  struct state *s = self;
  (void)reason;
  free(s->by_slot[r->slot]);
  s->by_slot[r->slot] = NULL;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_FLOAT(struct params, weight, "0.05", 0.001, 1, "",
                    "of the newest guess in the odds", .flags = LLS_PARAM_RELOADABLE),
};

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct state *s = calloc(1, sizeof *s);
  if (s != NULL)
    s->by_slot = calloc(host->engine->max_requests, sizeof(struct text *));
  if (s == NULL || s->by_slot == NULL) {
    free(s);
    return host->fail(host->context, -ENOMEM, "no memory for %u requests",
                      host->engine->max_requests);
  }
  s->host = host;
  memcpy(&s->params, params, sizeof s->params);
  for (uint32_t i = 0; i < PLACES; i++)
    s->odds[i] = 0.5f;
  *self = s;
  return 0;
}

static void destroy(void *self)
{
  struct state *s = self;
  for (uint32_t i = 0; i < s->host->engine->max_requests; i++)
    free(s->by_slot[i]);
  free(s->by_slot);
  free(s);
}

static int reconfigure(void *self, const void *params)
{
  memcpy(&((struct state *)self)->params, params, sizeof(struct params));
  return 0;
}

static int export_state(void *self, struct lls_blob *out)
{
  const struct state *s = self;
  out->version = STATE_VERSION;
  out->bytes = sizeof s->odds;
  out->data = malloc(sizeof s->odds);
  if (out->data == NULL)
    return -ENOMEM;
  memcpy(out->data, s->odds, sizeof s->odds);
  return 0;
}

static int import_state(void *self, const struct lls_blob *in)
{
  struct state *s = self;
  float odds[PLACES];
  if (in->version != STATE_VERSION)
    return -ENOTSUP;
  if (in->bytes != sizeof odds)
    return -EINVAL;
  memcpy(odds, in->data, sizeof odds);
  for (uint32_t i = 0; i < PLACES; i++)
    if (!(odds[i] >= 0 && odds[i] <= 1))
      return -EINVAL;
  memcpy(s->odds, odds, sizeof odds);
  return 0;
}

/* Shown by /metrics as llmserve_drafter. */
static void stats(void *self, const struct lls_sink *sink)
{
  const struct state *s = self;
  sink->number(sink->context, "first_odds", (double)s->odds[0]);
}

static const struct lls_drafter_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .flags = flags,
    .draft = draft,
    .on_arrival = on_arrival,
    .on_finish = on_finish,
    .stats = stats,
    .reconfigure = reconfigure,
    .export_state = export_state,
    .import_state = import_state,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_DRAFTER,
    .id = "example",
    .version = "1.0",
    .description = "guesses that two tokens are followed by the same one again",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
