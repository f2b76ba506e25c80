/* SPDX-License-Identifier: Apache-2.0 */
/* See block_events.h. */
#include "core/instance/block_events.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"

#define WAYS        4         /* places of a key in the table: one line of memory */
#define MOST_BLOCKS (1 << 20) /* in the table */
#define MOST_EVENTS 4096      /* that wait for main */
#define NAMES       64        /* of adapters; those that come later have none */
#define NAME_BYTES  64

/* A full block of some request. */
struct filled {
  uint64_t key, parent; /* first words */
  uint64_t when;        /* 0: free */
  uint32_t adapter;
  uint16_t name; /* 1 + its index in names; 0: none */
  bool is_first;
};

struct name {
  uint32_t adapter;
  char text[NAME_BYTES];
};

struct buffer {
  struct lls_block_event *events; /* (MOST_EVENTS) */
  int32_t *tokens;                /* (MOST_EVENTS, block_tokens) */
  size_t n;
};

struct lls_block_events {
  uint32_t block_tokens;
  /* [step] */
  struct filled *filled; /* (n_filled), a power of two */
  int32_t *tokens;       /* (n_filled, block_tokens) */
  uint64_t n_filled, now;
  struct name names[NAMES];
  uint32_t n_names;
  struct lls_block_change changes[MOST_EVENTS];
  bool cleared, posted;

  pthread_mutex_t lock;
  struct buffer ready; /* under lock: [step] adds */
  struct buffer taken; /* [main] */
};

/* ---- life ------------------------------------------------------------------------- */

static int make_buffer(struct buffer *b, uint32_t block_tokens)
{
  b->events = calloc(MOST_EVENTS, sizeof *b->events);
  b->tokens = calloc((size_t)MOST_EVENTS * block_tokens, sizeof *b->tokens);
  return b->events != NULL && b->tokens != NULL ? 0 : -ENOMEM;
}

int lls_block_events_create(uint32_t block_tokens, uint64_t blocks,
                            struct lls_block_events **out)
{
  struct lls_block_events *e = calloc(1, sizeof *e);
  if (e == NULL)
    return -ENOMEM;
  pthread_mutex_init(&e->lock, NULL);
  e->block_tokens = block_tokens;
  e->n_filled = 1024;
  while (e->n_filled < blocks && e->n_filled < MOST_BLOCKS)
    e->n_filled *= 2;
  e->filled = calloc(e->n_filled, sizeof *e->filled);
  e->tokens = calloc(e->n_filled * block_tokens, sizeof *e->tokens);
  if (e->filled == NULL || e->tokens == NULL ||
      make_buffer(&e->ready, block_tokens) < 0 ||
      make_buffer(&e->taken, block_tokens) < 0) {
    lls_block_events_free(e);
    return -ENOMEM;
  }
  *out = e;
  return 0;
}

void lls_block_events_free(struct lls_block_events *e)
{
  if (e == NULL)
    return;
  free(e->filled);
  free(e->tokens);
  free(e->ready.events);
  free(e->ready.tokens);
  free(e->taken.events);
  free(e->taken.tokens);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

/* ---- blocks that requests have filled --------------------------------------------- */

/* Returns the index of the key, or of the place that it would take. */
static uint64_t place_of(const struct lls_block_events *e, uint64_t key)
{
  uint64_t line = key & (e->n_filled - 1) & ~(uint64_t)(WAYS - 1), oldest = line;
  for (uint64_t i = line; i < line + WAYS; i++) {
    if (e->filled[i].when > 0 && e->filled[i].key == key)
      return i;
    if (e->filled[i].when < e->filled[oldest].when)
      oldest = i;
  }
  return oldest;
}

static uint16_t name_of(struct lls_block_events *e, const struct lls_request *v)
{
  uint32_t i = 0;
  if (v->adapter_name == NULL || v->adapter_name[0] == '\0')
    return 0;
  while (i < e->n_names && e->names[i].adapter != v->adapter)
    i++;
  if (i == NAMES || strlen(v->adapter_name) >= NAME_BYTES)
    return 0;
  if (i == e->n_names) {
    e->names[i].adapter = v->adapter;
    strcpy(e->names[i].text, v->adapter_name);
    e->n_names++;
  }
  return (uint16_t)(i + 1);
}

void lls_block_events_note(struct lls_instance *in, const struct lls_live *live,
                           uint32_t from, uint32_t until)
{
  struct lls_block_events *e = in->block_events;
  LLS_ON_STEP(in);
  if (e == NULL || live->keys.all == NULL)
    return;
  uint32_t n = e->block_tokens, past = until / n;
  uint16_t name = name_of(e, &live->view);
  for (uint32_t i = from / n; i < past && i < live->keys.n; i++) {
    const struct lls_key *key = &live->keys.all[i];
    uint64_t at = place_of(e, key->word[0]);
    e->filled[at] = (struct filled){.key = key->word[0],
                                    .parent = i > 0 ? key[-1].word[0] : 0,
                                    .when = ++e->now,
                                    .adapter = live->view.adapter,
                                    .name = name,
                                    .is_first = i == 0};
    memcpy(e->tokens + at * n, live->tokens + (size_t)i * n, n * sizeof *e->tokens);
  }
}

/* ---- events ----------------------------------------------------------------------- */

static struct lls_block_event *add(struct lls_block_events *e, uint32_t kind)
{
  struct lls_block_event *event = &e->ready.events[e->ready.n++];
  *event = (struct lls_block_event){.kind = kind};
  return event;
}

static void add_change(struct lls_block_events *e, const struct lls_block_change *c)
{
  int32_t *tokens = e->ready.tokens + e->ready.n * e->block_tokens;
  struct lls_block_event *event = add(e, c->kind);
  uint64_t at = place_of(e, c->key.word[0]);
  const struct filled *f = &e->filled[at];
  event->group = c->group;
  event->tier = c->tier;
  event->key = c->key.word[0];
  event->is_known =
      c->kind == LLS_BLOCK_STORED && f->when > 0 && f->key == c->key.word[0];
  if (!event->is_known)
    return;
  event->is_first = f->is_first;
  event->parent = f->parent;
  event->adapter = f->adapter;
  event->adapter_name = f->name > 0 ? e->names[f->name - 1].text : NULL;
  event->tokens =
      memcpy(tokens, e->tokens + at * e->block_tokens, e->block_tokens * sizeof *tokens);
}

static bool is_sound(struct lls_instance *in, const struct lls_block_change *c)
{
  if ((c->kind == LLS_BLOCK_STORED || c->kind == LLS_BLOCK_REMOVED) &&
      c->group < in->caps.n_groups && c->tier <= LLS_TIER_DISK)
    return true;
  lls_cache_breach(in, "a change of kind %u in group %u, tier %u", c->kind, c->group,
                   c->tier);
  return false;
}

/* The lock is held while events are copied, some 100 bytes each; main holds it to swap
 * two pointers. */
void lls_block_events_collect(struct lls_instance *in)
{
  struct lls_block_events *e = in->block_events;
  LLS_ON_STEP(in);
  if (e == NULL)
    return;
  pthread_mutex_lock(&e->lock);
  size_t room = MOST_EVENTS - e->ready.n;
  pthread_mutex_unlock(&e->lock);
  if (room < 2)
    return;
  size_t n = LLS_HAS(&in->policies, cache, changes)
                 ? LLS_CALL(&in->policies, cache, changes, e->changes, room - 1)
                 : 0;
  if (n > room - 1) {
    lls_cache_breach(in, "it reports %zu changes, %zu at most were asked for", n,
                     room - 1);
    n = 0;
  }
  pthread_mutex_lock(&e->lock);
  size_t before = e->ready.n;
  if (e->cleared)
    add(e, LLS_BLOCKS_CLEARED);
  e->cleared = false;
  for (size_t i = 0; i < n; i++)
    if (is_sound(in, &e->changes[i]))
      add_change(e, &e->changes[i]);
  e->posted |= e->ready.n > before;
  pthread_mutex_unlock(&e->lock);
}

void lls_block_events_clear(struct lls_instance *in)
{
  LLS_ON_STEP(in);
  if (in->block_events != NULL)
    in->block_events->cleared = true;
}

bool lls_block_events_posted(struct lls_instance *in)
{
  struct lls_block_events *e = in->block_events;
  LLS_ON_STEP(in);
  bool posted = e != NULL && e->posted;
  if (posted)
    e->posted = false;
  return posted;
}

struct lls_block_event_list lls_block_events_take(struct lls_instance *in)
{
  struct lls_block_events *e = in->block_events;
  if (e == NULL)
    return (struct lls_block_event_list){0};
  pthread_mutex_lock(&e->lock);
  struct buffer empty = e->taken;
  e->taken = e->ready;
  e->ready = empty;
  e->ready.n = 0;
  pthread_mutex_unlock(&e->lock);
  return (struct lls_block_event_list){.events = e->taken.events,
                                       .n = e->taken.n,
                                       .block_tokens = e->block_tokens,
                                       .n_groups = in->caps.n_groups,
                                       .groups = in->caps.groups};
}
