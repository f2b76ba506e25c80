/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of schemas that apply together.
 *
 * The unit of the compiler is a set of schemas, all of which a value has to satisfy:
 * allOf and $ref add members to it, a property's set has each member's schemas for the
 * property, and a branch of anyOf is tried by adding it. So schemas need no merging,
 * and recursion ends, because there are finitely many sets.
 */
#ifndef LLS_GRAMMAR_SCHEMA_SET_H
#define LLS_GRAMMAR_SCHEMA_SET_H

#include "text/grammar/json_syntax.h"

#include <stdbool.h>

#define LLS_SCHEMA_TOGETHER 64    /* most members of a set */
#define LLS_SCHEMA_DEPTH    120   /* most nested sets */
#define LLS_SCHEMA_WORK     60000 /* most sets visited for all schemas of a tree */

enum lls_schema_types {
  LLS_SCHEMA_NULL = 1,
  LLS_SCHEMA_BOOLEAN = 2,
  LLS_SCHEMA_INTEGER = 4,
  LLS_SCHEMA_FRACTION = 8, /* numbers that are not integers */
  LLS_SCHEMA_STRING = 16,
  LLS_SCHEMA_ARRAY = 32,
  LLS_SCHEMA_OBJECT = 64,
  LLS_SCHEMA_ANY = 127
};

/* Choices already made for a member. LLS_SCHEMA_OTHER: the member requires a property
 * that it does not name, and the choice was a name that no member has. */
enum {
  LLS_SCHEMA_ANY_OF = 1,
  LLS_SCHEMA_ONE_OF = 2,
  LLS_SCHEMA_BEYOND = 4,
  LLS_SCHEMA_OTHER = 8
};

struct lls_schema_member {
  const json_t *schema; /* an object */
  uint32_t made;        /* LLS_SCHEMA_ANY_OF | ... */
  uint32_t from;        /* index of the member that refers to it, or its own */
};

struct lls_schema_set {
  struct lls_schema_member members[LLS_SCHEMA_TOGETHER];
  uint32_t n;
  bool impossible; /* the schema `false` is a member */
};

struct lls_schema_memo;
struct lls_schema_made;

/* One schema while it is compiled. */
struct lls_schema {
  struct lls_json_syntax json;
  const json_t *root; /* document that $ref is relative to */
  bool strict, failed;
  bool closed; /* objects that name properties, and have no keyword about others, allow
                * no others */
  unsigned depth, *work;
  struct lls_schema_memo *memos;      /* sets that have a node already */
  struct lls_schema_made *made;       /* schemas of schema_made.h */
  json_t *requires;                   /* {"required": [name]} schemas, by name */
  const json_t *constants, *constant; /* an enum, and its value under test */
  const json_t *narrow;   /* first schema whose opposite lacks values, or NULL */
  const char *narrow_for; /* the keyword of `narrow` that has no opposite */
};

/* Fails with "the schema at #/properties/a: ...". Returns LLS_GRAMMAR_NONE. */
uint32_t lls_schema_fail(struct lls_schema *s, const json_t *schema, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));
/* Handles a keyword that is not supported: fails if strict, else returns true. */
bool lls_schema_leave_out(struct lls_schema *s, const json_t *schema, const char *keyword,
                          const char *why);
/* Counts a step of work. Returns false after too many steps, or another failure. */
bool lls_schema_step(struct lls_schema *s, const json_t *schema);

/* Adds a schema to the set. `from` is the index of the member that refers to it, or
 * set->n. The booleans true and false are schemas too; NULL adds nothing. Returns false
 * if compiling has failed. */
bool lls_schema_add(struct lls_schema *s, struct lls_schema_set *set,
                    const json_t *schema, uint32_t from);
/* Adds the schemas that $ref and allOf of the members from index `first` on refer to. */
bool lls_schema_gather(struct lls_schema *s, struct lls_schema_set *set, uint32_t first);

/* Sets *types to the types that all members of a set allow. Returns false on failure. */
bool lls_schema_types_of(struct lls_schema *s, const struct lls_schema_set *set,
                         unsigned *types);

/* Returns the value of a keyword of member i, or NULL. */
static inline const json_t *lls_schema_get(const struct lls_schema_set *set, uint32_t i,
                                           const char *keyword)
{
  return json_object_get(set->members[i].schema, keyword);
}

/* Reads a keyword that is a count: its greatest (or least) value over all members and
 * the given *value. Returns false on failure, if a value is not a whole number of at
 * least 0. */
bool lls_schema_count(struct lls_schema *s, const struct lls_schema_set *set,
                      const char *keyword, bool greatest, uint32_t *value);

#endif
