/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a template, with the meaning that Python gives them.
 *
 * A value is a small struct that is copied freely. What it points to lives in the arena
 * of one rendering (budget.h), in the compiled template, or in the caller's JSON, all of
 * which outlive the value: nothing is counted and nothing is freed. Lists, mappings and
 * namespaces are shared by reference, as in Python, and may contain themselves;
 * everything that walks through values bounds its depth by LLS_VALUE_DEPTH.
 */
#ifndef LLS_TEMPLATE_VALUE_H
#define LLS_TEMPLATE_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLS_VALUE_DEPTH 200

enum lls_kind {
  LLS_UNDEFINED, /* text: the name that was asked for, or NULL */
  LLS_NONE,
  LLS_BOOLEAN,
  LLS_INTEGER,
  LLS_REAL,
  LLS_STRING, /* text, length: valid UTF-8, not terminated */
  LLS_LIST,
  LLS_DICT,
  LLS_NAMESPACE, /* dict */
  LLS_GENERATOR, /* what some filters return: it can be gone through once */
  LLS_LOOP,      /* the variable "loop" of a for */
  LLS_MACRO,
  LLS_FUNCTION,
  LLS_METHOD, /* a method with the object it was taken from */
};

/* The Python type that a list stands for. */
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
  bool safe;       /* of a string: it is Jinja's Markup */
  uint32_t length; /* of a text, in bytes */
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
  uint32_t next; /* item */
};

/* A mapping keeps the order in which its keys were added. */
struct lls_entry {
  struct lls_value key; /* LLS_UNDEFINED where the entry was removed */
  struct lls_value value;
};

struct lls_dict {
  struct lls_entry *entries; /* (used), removed ones among them */
  uint32_t used;
  uint32_t capacity;
  uint32_t count;  /* entries that are not removed */
  uint32_t slots;  /* a power of two, or 0 while the mapping is small */
  uint32_t *index; /* (slots) 1 + number of an entry, or 0; open addressing */
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

/* A string over bytes that outlive it. */
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

/* An integer, or a boolean, which counts as one. */
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

/* ---- equality and order; failures are the rendering's ------------------------------ */

bool lls_equal(struct lls_render *render, struct lls_value left, struct lls_value right);
/* Below, equal or above zero; fails where the values have no order. */
int lls_order(struct lls_render *render, const struct lls_node *node,
              struct lls_value left, struct lls_value right);
/* True if item is in the container; fails where nothing can be in it. */
bool lls_contains(struct lls_render *render, const struct lls_node *node,
                  struct lls_value item, struct lls_value container);

/* ---- lists (NULL after a failure, which every function accepts) -------------------- */

struct lls_list *lls_list_new(struct lls_render *render, enum lls_list_form form);
bool lls_list_push(struct lls_render *render, struct lls_list *list,
                   struct lls_value value);
/* The items that a for iterates over: items, keys or characters; the list itself for a
 * list. */
struct lls_list *lls_items_of(struct lls_render *render, const struct lls_node *node,
                              struct lls_value value);
/* The same as a list of its own. */
struct lls_list *lls_list_copy(struct lls_render *render, const struct lls_node *node,
                               struct lls_value value);
struct lls_value lls_generate(struct lls_render *render, struct lls_list *list);
struct lls_value lls_pair(struct lls_render *render, enum lls_list_form form,
                          struct lls_value first, struct lls_value second);

/* ---- mappings ---------------------------------------------------------------------- */

struct lls_dict *lls_dict_new(struct lls_render *render);
void lls_dict_clear(struct lls_dict *dict);
/* NULL where there is no such key; charges what it reads. */
struct lls_value *lls_dict_find(struct lls_render *render, const struct lls_dict *dict,
                                struct lls_value key);
/* Fails for a key that cannot be one. */
bool lls_dict_set(struct lls_render *render, struct lls_dict *dict, struct lls_value key,
                  struct lls_value value);
void lls_dict_remove(struct lls_render *render, struct lls_dict *dict,
                     struct lls_value key);
/* The next entry from *at on, which moves past it; NULL at the end. */
struct lls_entry *lls_dict_next(const struct lls_dict *dict, uint32_t *at);
/* Keys, values or (key, value). */
struct lls_list *lls_dict_list(struct lls_render *render, const struct lls_dict *dict,
                               enum lls_list_form form);
struct lls_dict *lls_dict_copy(struct lls_render *render, const struct lls_dict *dict);

/* ---- JSON (json_text.c) ------------------------------------------------------------ */

/* Its strings stay those of json, which must outlive the value, unless copy is true. */
struct lls_value lls_from_json(struct lls_render *render, const json_t *json, bool copy);

#endif
