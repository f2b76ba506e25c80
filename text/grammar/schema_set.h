/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas that hold together.
 *
 * The unit of the compiler is a set of schemas, all of which a value has to satisfy:
 * allOf and $ref add members to it, a property's set is what each member says about that
 * property, and a branch of anyOf is tried by adding it. So nothing has to be merged, and
 * recursion ends, for there are finitely many sets.
 */
#ifndef LLS_GRAMMAR_SCHEMA_SET_H
#define LLS_GRAMMAR_SCHEMA_SET_H

#include "text/grammar/json_syntax.h"

#include <stdbool.h>

#define LLS_SCHEMA_TOGETHER 64    /* members of a set */
#define LLS_SCHEMA_DEPTH    120   /* sets inside each other */
#define LLS_SCHEMA_WORK     60000 /* sets looked at in all schemas of a tree */

enum lls_schema_types {
  LLS_SCHEMA_NULL = 1,
  LLS_SCHEMA_BOOLEAN = 2,
  LLS_SCHEMA_INTEGER = 4,
  LLS_SCHEMA_FRACTION = 8, /* numbers that are no integers */
  LLS_SCHEMA_STRING = 16,
  LLS_SCHEMA_ARRAY = 32,
  LLS_SCHEMA_OBJECT = 64,
  LLS_SCHEMA_ANY = 127
};

/* Choices that were made. LLS_SCHEMA_OTHER: of a schema that wants a property which it
 * does not name, that it is one which no member names. */
enum {
  LLS_SCHEMA_ANY_OF = 1,
  LLS_SCHEMA_ONE_OF = 2,
  LLS_SCHEMA_BEYOND = 4,
  LLS_SCHEMA_OTHER = 8
};

struct lls_schema_member {
  const json_t *schema; /* an object */
  uint32_t made;        /* LLS_SCHEMA_ANY_OF | ... */
  uint32_t from;        /* the member that brought it, or itself */
};

struct lls_schema_set {
  struct lls_schema_member members[LLS_SCHEMA_TOGETHER];
  uint32_t n;
  bool impossible; /* `false` is among them */
};

struct lls_schema_memo;
struct lls_schema_made;

/* One schema while it is compiled. */
struct lls_schema {
  struct lls_json_syntax json;
  const json_t *root; /* what $ref begins from */
  bool strict, failed;
  bool closed; /* objects that name properties, and say nothing of others, have no others
                */
  unsigned depth, *work;
  struct lls_schema_memo *memos;      /* sets that have a node */
  struct lls_schema_made *made;       /* schemas of schema_made.h */
  json_t *requires;                   /* the same, by name */
  const json_t *constants, *constant; /* an enum, and the one of it that is judged now */
  const json_t *narrow;   /* the first of which the opposite is narrow, or NULL */
  const char *narrow_for; /* its keyword that has no opposite */
};

/* Fails with "the schema at #/properties/a: ..."; returns LLS_GRAMMAR_NONE. */
uint32_t lls_schema_fail(struct lls_schema *s, const json_t *schema, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));
/* For a keyword that cannot be kept: fails if strict, else returns true. */
bool lls_schema_leave_out(struct lls_schema *s, const json_t *schema, const char *keyword,
                          const char *why);
/* Counts a step of work; false if there was too much, or another failure. */
bool lls_schema_step(struct lls_schema *s, const json_t *schema);

/* Adds a schema; `from` is the member that has it, or set->n. True and false as JSON has
 * them are schemas, too; NULL is none. False if the compiling has failed. */
bool lls_schema_add(struct lls_schema *s, struct lls_schema_set *set,
                    const json_t *schema, uint32_t from);
/* Adds what $ref and allOf bring, of the members from `first` on. */
bool lls_schema_gather(struct lls_schema *s, struct lls_schema_set *set, uint32_t first);

/* The types that all of a set's members allow; false with a failure. */
bool lls_schema_types_of(struct lls_schema *s, const struct lls_schema_set *set,
                         unsigned *types);

/* The value of a keyword, or NULL. */
static inline const json_t *lls_schema_get(const struct lls_schema_set *set, uint32_t i,
                                           const char *keyword)
{
  return json_object_get(set->members[i].schema, keyword);
}

/* A keyword that counts: the greatest (or least) over all members, or the value given.
 * False with a failure: it is no whole number of at least 0. */
bool lls_schema_count(struct lls_schema *s, const struct lls_schema_set *set,
                      const char *keyword, bool greatest, uint32_t *value);

#endif
