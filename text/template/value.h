/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a template, with Python's semantics.
 *
 * A value is a small struct that is copied freely. The data it points to lives in the
 * arena of one rendering (budget.h), in the compiled template, or in the caller's JSON,
 * all of which outlive the value: no references are counted and nothing is freed.
 * Lists, mappings and namespaces are shared by reference, as in Python, and may contain
 * themselves; every function that walks values bounds its depth by LLS_VALUE_DEPTH.
 */
#ifndef LLS_TEMPLATE_VALUE_H
#define LLS_TEMPLATE_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLS_VALUE_DEPTH 200

enum lls_kind {
  LLS_UNDEFINED, /* text: the undefined name, or NULL */
  LLS_NONE,
  LLS_BOOLEAN,
  LLS_INTEGER,
  LLS_REAL,
  LLS_STRING, /* text, length: valid UTF-8, not terminated */
  LLS_LIST,
  LLS_DICT,
  LLS_NAMESPACE, /* dict */
  LLS_GENERATOR, /* the result of some filters; can be iterated once */
  LLS_LOOP,      /* the variable "loop" of a for */
  LLS_MACRO,
  LLS_FUNCTION,
  LLS_METHOD, /* a method bound to its object */
};

/* The Python type of a list. */
enum lls_list_form {
  LLS_FORM_LIST,
  LLS_FORM_TUPLE,
  LLS_FORM_GROUP, /* a tuple with the members "grouper" and "list" */
  LLS_FORM_KEYS,  /* views of a mapping */
  LLS_FORM_VALUES,
  LLS_FORM_ITEMS,
};

struct lls_render;
struct lls_node;

struct lls_value {
  uint8_t kind;    /* enum lls_kind */
  bool safe;       /* for a string: it is Jinja's Markup */
  uint32_t length; /* bytes of a string */
  union {
    bool boolean;
    int64_t integer;
    double real;
    const char *text;
    struct lls_list *list;
    struct lls_dict *dict;
    struct lls_generator *generator;
    struct lls_for_loop *loop;
    struct lls_macro *macro;
    const struct lls_function *function;
    struct lls_bound *bound;
  };
};

struct lls_list {
  struct lls_value *items; /* (count) */
  uint32_t count;
  uint32_t capacity;
  enum lls_list_form form;
};

struct lls_generator {
  struct lls_list *list;
  uint32_t next; /* index of the next item */
};

/* A mapping keeps the order in which its keys were added. */
struct lls_entry {
  struct lls_value key; /* LLS_UNDEFINED if the entry was removed */
  struct lls_value value;
};

struct lls_dict {
  struct lls_entry *entries; /* (used), including removed ones */
  uint32_t used;
  uint32_t capacity;
  uint32_t count;  /* entries except removed ones */
  uint32_t slots;  /* a power of two, or 0 while the mapping is small */
  uint32_t *index; /* (slots) 1 + index of an entry, or 0; open addressing */
};

static inline struct lls_value lls_undefined(void)
{
  return (struct lls_value){.kind = LLS_UNDEFINED};
}

static inline struct lls_value lls_none(void)
{
  return (struct lls_value){.kind = LLS_NONE};
}

static inline struct lls_value lls_boolean(bool value)
{
  return (struct lls_value){.kind = LLS_BOOLEAN, .boolean = value};
}

static inline struct lls_value lls_integer(int64_t value)
{
  return (struct lls_value){.kind = LLS_INTEGER, .integer = value};
}

static inline struct lls_value lls_real(double value)
{
  return (struct lls_value){.kind = LLS_REAL, .real = value};
}

/* Makes a string of bytes that must outlive it. */
static inline struct lls_value lls_view(const char *text, size_t length)
{
  return (struct lls_value){
      .kind = LLS_STRING, .length = (uint32_t)length, .text = length > 0 ? text : ""};
}

static inline struct lls_value lls_of_list(struct lls_list *list)
{
  return list != NULL ? (struct lls_value){.kind = LLS_LIST, .list = list}
                      : lls_undefined();
}

static inline struct lls_value lls_of_dict(struct lls_dict *dict)
{
  return dict != NULL ? (struct lls_value){.kind = LLS_DICT, .dict = dict}
                      : lls_undefined();
}

static inline bool lls_is_string(struct lls_value value)
{
  return value.kind == LLS_STRING;
}

static inline bool lls_is_sequence(struct lls_value value)
{
  return value.kind == LLS_LIST && value.list->form <= LLS_FORM_GROUP;
}

/* Returns true for an integer or a boolean, which is an integer in Python. */
static inline bool lls_is_integral(struct lls_value value)
{
  return value.kind == LLS_INTEGER || value.kind == LLS_BOOLEAN;
}

static inline bool lls_is_number(struct lls_value value)
{
  return lls_is_integral(value) || value.kind == LLS_REAL;
}

static inline int64_t lls_integer_of(struct lls_value value)
{
  return value.kind == LLS_BOOLEAN ? value.boolean : value.integer;
}

static inline double lls_real_of(struct lls_value value)
{
  return value.kind == LLS_REAL ? value.real : (double)lls_integer_of(value);
}

const char *lls_type_name(struct lls_value value); /* for messages: "a list" */
bool lls_truth(struct lls_value value);
bool lls_text_is(struct lls_value value, const char *text);

/* ---- equality and order; failures are recorded in the rendering -------------------- */

bool lls_equal(struct lls_render *render, struct lls_value left, struct lls_value right);
/* Returns a number below, equal to or above zero; fails if the values have no order. */
int lls_order(struct lls_render *render, const struct lls_node *node,
              struct lls_value left, struct lls_value right);
/* Returns true if item is in the container; fails if the value cannot contain
 * anything. */
bool lls_contains(struct lls_render *render, const struct lls_node *node,
                  struct lls_value item, struct lls_value container);

/* ---- lists; functions return NULL after a failure, and accept it ------------------- */

struct lls_list *lls_list_new(struct lls_render *render, enum lls_list_form form);
bool lls_list_push(struct lls_render *render, struct lls_list *list,
                   struct lls_value value);
/* Returns the items that a for iterates over: items, keys or characters; for a list the
 * list itself. */
struct lls_list *lls_items_of(struct lls_render *render, const struct lls_node *node,
                              struct lls_value value);
/* Returns the same items as a new list. */
struct lls_list *lls_list_copy(struct lls_render *render, const struct lls_node *node,
                               struct lls_value value);
struct lls_value lls_generate(struct lls_render *render, struct lls_list *list);
struct lls_value lls_pair(struct lls_render *render, enum lls_list_form form,
                          struct lls_value first, struct lls_value second);

/* ---- mappings ---------------------------------------------------------------------- */

struct lls_dict *lls_dict_new(struct lls_render *render);
void lls_dict_clear(struct lls_dict *dict);
/* Returns NULL if the key is missing; charges the work of the search. */
struct lls_value *lls_dict_find(struct lls_render *render, const struct lls_dict *dict,
                                struct lls_value key);
/* Fails for a value that cannot be a key. */
bool lls_dict_set(struct lls_render *render, struct lls_dict *dict, struct lls_value key,
                  struct lls_value value);
void lls_dict_remove(struct lls_render *render, struct lls_dict *dict,
                     struct lls_value key);
/* Returns the next entry from *at on, and moves *at after it; NULL at the end. */
struct lls_entry *lls_dict_next(const struct lls_dict *dict, uint32_t *at);
/* Returns the keys, values or (key, value) pairs. */
struct lls_list *lls_dict_list(struct lls_render *render, const struct lls_dict *dict,
                               enum lls_list_form form);
struct lls_dict *lls_dict_copy(struct lls_render *render, const struct lls_dict *dict);

/* ---- JSON (json_text.c) ------------------------------------------------------------ */

/* Strings refer to those of json, which must outlive the value, unless copy is true. */
struct lls_value lls_from_json(struct lls_render *render, const json_t *json, bool copy);

#endif
