/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler's memory of each program. A program is a session: requests that come one
 * after the other, with tools or users between them. The table has a fixed size,
 * since callbacks of the step thread must not allocate; a session that finds no place,
 * like a request without a session, is a program of its own request alone.
 */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include <llmserve/scheduler.h>

#include <errno.h>
#include <stdlib.h>

#define PROGRAMS_IDLE 4096 /* places besides those of the living requests */

struct program {
  bool used;
  uint64_t session;   /* its id */
  int64_t arrival_ns; /* of its first request */
  int64_t served_ns;  /* time that its ended requests ran */
  int64_t waited_ns;  /* time that its ended requests waited */
  int64_t asked_ns;   /* when its memory was last asked to stay; LLS_NEVER: not yet */
};

struct programs {
  struct program *places; /* (mask + 1) by hash, then the next free one */
  uint32_t mask, n;
};

static inline int programs_init(struct programs *p, uint32_t max_requests)
{
  uint32_t n = 2;
  while (n < 2 * (PROGRAMS_IDLE + (uint64_t)max_requests) && n < 1u << 30)
    n *= 2;
  p->places = calloc(n, sizeof *p->places);
  p->mask = n - 1;
  p->n = 0;
  return p->places == NULL ? -ENOMEM : 0;
}

static inline void programs_free(struct programs *p)
{
  free(p->places);
}

static inline uint32_t programs_home(const struct programs *p, uint64_t session)
{
  uint64_t hash = session * UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(hash >> 32) & p->mask;
}

/* Returns the session's place, or the free one that it would get. */
static inline uint32_t programs_place(const struct programs *p, uint64_t session)
{
  uint32_t at = programs_home(p, session);
  while (p->places[at].used && p->places[at].session != session)
    at = (at + 1) & p->mask;
  return at;
}

/* Returns the session's program, or NULL. */
static inline struct program *programs_find(struct programs *p, uint64_t session)
{
  struct program *program = &p->places[programs_place(p, session)];
  return program->used ? program : NULL;
}

/* Returns the program of the request's session; NULL: the request is of none, or the
 * table has no place for it. */
static inline struct program *programs_of(struct programs *p, const struct lls_request *r)
{
  if (r->session == NULL)
    return NULL;
  struct program *program = &p->places[programs_place(p, r->session->id)];
  if (program->used)
    return program;
  if (p->n > p->mask / 2)
    return NULL;
  p->n++;
  *program = (struct program){.used = true,
                              .session = r->session->id,
                              .arrival_ns = r->arrival_ns,
                              .asked_ns = LLS_NEVER};
  return program;
}

/* Forgets a session, for on_session_end. Programs behind its place move up, so that a
 * search from their hash still finds them. */
static inline void programs_forget(struct programs *p, uint64_t session)
{
  uint32_t hole = programs_place(p, session);
  if (!p->places[hole].used)
    return;
  for (uint32_t at = (hole + 1) & p->mask; p->places[at].used; at = (at + 1) & p->mask) {
    uint32_t home = programs_home(p, p->places[at].session);
    if (((at - home) & p->mask) >= ((at - hole) & p->mask)) {
      p->places[hole] = p->places[at];
      hole = at;
    }
  }
  p->places[hole].used = false;
  p->n--;
}

#endif
