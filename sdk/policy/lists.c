/* SPDX-License-Identifier: Apache-2.0 */
/* Lists doubly linked through an array indexed by slot; see lists.h. */
#include <llmserve/policy/check.h>
#include <llmserve/policy/lists.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NIL UINT32_MAX

struct lls_pol_lists_end {
  uint32_t first, last, n;
};

struct lls_pol_lists_node {
  const struct lls_request *request;
  uint32_t previous, next; /* slots */
};

static bool before(const struct lls_pol_lists *l, const struct lls_request *a,
                   const struct lls_request *b)
{
  if (l->by_entry && a->queue_enter_ns != b->queue_enter_ns)
    return a->queue_enter_ns < b->queue_enter_ns;
  return a->id < b->id;
}

/* Returns the slot of the request after which r belongs, NIL if r becomes the first. An
 * arrival belongs at the end, which is checked first. A preempted request is older than
 * nearly all others, so the search for its place starts at the head. */
static uint32_t place_of(const struct lls_pol_lists *l, const struct lls_pol_lists_end *e,
                         const struct lls_request *r)
{
  if (e->last == NIL || before(l, l->nodes[e->last].request, r))
    return e->last;
  uint32_t at = e->first;
  while (before(l, l->nodes[at].request, r))
    at = l->nodes[at].next;
  return l->nodes[at].previous;
}

static void insert(void *self, const struct lls_request *r)
{
  struct lls_pol_lists *l = self;
  struct lls_pol_lists_end *e = &l->ends[l->group(l->scheduler, r)];
  uint32_t previous = place_of(l, e, r);
  LLS_POL_CHECK(e < l->ends + l->n_groups && l->nodes[r->slot].request == NULL);
  LLS_POL_CHECK((e->n == 0) == (e->first == NIL) && (e->n == 0) == (e->last == NIL));
  uint32_t next = previous == NIL ? e->first : l->nodes[previous].next;
  l->nodes[r->slot] = (struct lls_pol_lists_node){r, previous, next};
  *(previous == NIL ? &e->first : &l->nodes[previous].next) = r->slot;
  *(next == NIL ? &e->last : &l->nodes[next].previous) = r->slot;
  r->user[0] = 1;
  if (e->n++ == 0 && l->emptied != NULL)
    l->emptied(l->scheduler, l->group(l->scheduler, r), false);
}

static void remove_one(void *self, const struct lls_request *r)
{
  struct lls_pol_lists *l = self;
  struct lls_pol_lists_end *e = &l->ends[l->group(l->scheduler, r)];
  struct lls_pol_lists_node *node = &l->nodes[r->slot];
  LLS_POL_CHECK(e->n > 0 && node->request == r);
  *(node->previous == NIL ? &e->first : &l->nodes[node->previous].next) = node->next;
  *(node->next == NIL ? &e->last : &l->nodes[node->next].previous) = node->previous;
  node->request = NULL;
  r->user[0] = 0;
  if (--e->n == 0 && l->emptied != NULL)
    l->emptied(l->scheduler, l->group(l->scheduler, r), true);
}

static void clear(void *self)
{
  struct lls_pol_lists *l = self;
  for (uint32_t g = 0; g < l->n_groups; g++) {
    for (uint32_t at = l->ends[g].first; at != NIL; at = l->nodes[at].next) {
      l->nodes[at].request->user[0] = 0;
      l->nodes[at].request = NULL;
    }
    if (l->ends[g].n > 0 && l->emptied != NULL)
      l->emptied(l->scheduler, g, true);
    l->ends[g] = (struct lls_pol_lists_end){NIL, NIL, 0};
  }
}

static bool has(void *self, const struct lls_request *r)
{
  const struct lls_pol_lists *l = self;
  return l->nodes[r->slot].request == r;
}

static const struct lls_pol_backlog_container container = {insert, remove_one, clear,
                                                           has};

int lls_pol_lists_init(struct lls_pol_lists *l, struct lls_pol_scheduler *scheduler,
                       uint32_t n_groups, lls_pol_lists_group *group)
{
  l->group = group;
  l->scheduler = scheduler;
  l->n_groups = n_groups;
  l->ends = malloc(n_groups * sizeof *l->ends);
  l->nodes = calloc(scheduler->host->engine->max_requests, sizeof *l->nodes);
  int rc = lls_pol_backlog_init(&l->backlog, scheduler, &container, l);
  if (l->ends == NULL || l->nodes == NULL)
    return -ENOMEM;
  for (uint32_t g = 0; g < n_groups; g++)
    l->ends[g] = (struct lls_pol_lists_end){NIL, NIL, 0};
  return rc;
}

void lls_pol_lists_free(struct lls_pol_lists *l)
{
  lls_pol_backlog_free(&l->backlog);
  free(l->ends);
  free(l->nodes);
}

const struct lls_request *lls_pol_lists_first(const struct lls_pol_lists *l,
                                              uint32_t group)
{
  uint32_t first = l->ends[group].first;
  return first != NIL ? l->nodes[first].request : NULL;
}

uint32_t lls_pol_lists_length(const struct lls_pol_lists *l, uint32_t group)
{
  return l->ends[group].n;
}

const struct lls_request *lls_pol_lists_pop(struct lls_pol_lists *l, uint32_t group)
{
  const struct lls_request *r;
  while ((r = lls_pol_lists_first(l, group)) != NULL)
    if (lls_pol_backlog_take(&l->backlog, r))
      return r;
  return NULL;
}

void lls_pol_lists_dump(const struct lls_pol_lists *l, const struct lls_sink *sink)
{
  for (uint32_t g = 0; g < l->n_groups; g++)
    for (uint32_t at = l->ends[g].first; at != NIL; at = l->nodes[at].next) {
      char line[80];
      snprintf(line, sizeof line, "group %" PRIu32 " request %" PRIu64, g,
               l->nodes[at].request->id);
      sink->text(sink->context, line);
    }
}
