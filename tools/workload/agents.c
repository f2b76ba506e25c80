/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes sessions of agents without a file. A session begins with instructions that it
 * shares with others, and a task. After each answer a tool runs, or a user answers; the
 * next turn adds the result. The time of a tool is lognormal: its median, times e^N(0,1).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/workload/build.h"
#include "tools/workload/lengths.h"

#define TOOLS_MAX  32
#define SPREAD_MAX 50. /* a tool takes at most so many times its median */

struct tool {
  const char *name; /* (length) empty: a user */
  size_t length;
  double weight, median_s;
};

struct agents {
  const struct lls_workload_options *o;
  struct lls_lengths *turns, *first, *added, *outputs;
  struct tool tools[TOOLS_MAX];
  unsigned n_tools;
  double weights; /* sum of the tools' weights */
};

/* ---- options ----------------------------------------------------------------------- */

static int bad_tools(const char *text, struct lls_error *err)
{
  return lls_fail(
      err, -EINVAL,
      "--agents-tools: expected at most %d of NAME:WEIGHT:SECONDS with commas "
      "between them; found '%s'",
      TOOLS_MAX, text);
}

static int parse_tools(struct agents *a, struct lls_error *err)
{
  for (const char *at = a->o->agents_tools; *at != '\0';) {
    struct tool *tool = &a->tools[a->n_tools];
    char *end = NULL;
    if (a->n_tools++ == TOOLS_MAX)
      return bad_tools(a->o->agents_tools, err);
    *tool = (struct tool){.name = at, .length = strcspn(at, ":,")};
    at += tool->length;
    tool->weight = *at == ':' ? strtod(at + 1, &end) : -1;
    tool->median_s = end != NULL && *end == ':' ? strtod(end + 1, &end) : -1;
    if (!(tool->weight > 0 && tool->weight < 1e6) ||
        !(tool->median_s >= 0 && tool->median_s <= 86400) ||
        (*end != ',' && *end != '\0'))
      return bad_tools(a->o->agents_tools, err);
    a->weights += tool->weight;
    at = end + (*end == ',');
  }
  return a->n_tools > 0 ? 0 : bad_tools("", err);
}

static int parse(struct agents *a, struct lls_error *err)
{
  const struct {
    const char *option, *text;
    struct lls_lengths **out;
  } lengths[] = {
      {"--agents-turns", a->o->agents_turns, &a->turns},
      {"--agents-first-lengths", a->o->agents_first_lengths, &a->first},
      {"--agents-added-lengths", a->o->agents_added_lengths, &a->added},
      {"--agents-output-lengths", a->o->agents_output_lengths, &a->outputs},
  };
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    int rc = lls_lengths_parse(lengths[i].text, lengths[i].out, err);
    if (rc < 0)
      return lls_fail_at(err, rc, "%s", lengths[i].option);
  }
  return parse_tools(a, err);
}

/* ---- sessions ---------------------------------------------------------------------- */

static const struct tool *draw_tool(const struct agents *a, struct lls_random *random)
{
  double at = lls_random_uniform(random) * a->weights;
  unsigned i = 0;
  for (; i + 1 < a->n_tools && at >= a->tools[i].weight; i++)
    at -= a->tools[i].weight;
  return &a->tools[i];
}

static int64_t draw_wait(const struct tool *tool, struct lls_random *random)
{
  double spread = exp(lls_random_normal(random));
  return llround(tool->median_s * fmin(spread, SPREAD_MAX) * LLS_NS_PER_S);
}

/* Makes the row begin with the instructions that sessions of one number share. */
static int instruct(const struct agents *a, struct lls_rows *rows, struct lls_item *row,
                    struct lls_random *random)
{
  uint64_t number = lls_random_below(random, (uint64_t)a->o->agents_num_prefixes);
  uint64_t *hash = lls_arena_copy(rows->arena, &number, sizeof number);
  if (hash == NULL)
    return -ENOMEM;
  row->hashes = hash;
  row->n_hashes = a->o->agents_prefix_len > 0;
  row->hash_tokens = (uint32_t)a->o->agents_prefix_len;
  row->prompt_tokens += row->hash_tokens;
  return 0;
}

static int make_turn(const struct agents *a, struct lls_rows *rows, const char *session,
                     bool first, bool last, struct lls_random *random,
                     struct lls_error *err)
{
  const struct lls_place place = {.file = "agents"};
  const struct tool *tool = draw_tool(a, random);
  struct lls_item *row = lls_rows_add(rows);
  if (row == NULL)
    return lls_fail(err, -ENOMEM, "no memory for more than %u rows", rows->n);
  row->prompt_tokens = lls_lengths_draw(first ? a->first : a->added, random);
  row->output_tokens = lls_lengths_draw(a->outputs, random);
  row->growth = first ? LLS_GROWTH_WHOLE : LLS_GROWTH_ADDED;
  int64_t wait_ns = draw_wait(tool, random);
  int rc = first ? instruct(a, rows, row, random) : 0;
  if (rc < 0)
    return lls_fail(err, rc, "no memory for the workload");
  rc = lls_row_session(&place, rows, row, session, strlen(session), err);
  if (rc < 0 || last)
    return rc;
  row->wait_ns = wait_ns;
  return lls_row_tool(&place, rows, row, tool->name, tool->length, err);
}

static int make_session(const struct agents *a, uint32_t number, struct lls_rows *rows,
                        struct lls_error *err)
{
  struct lls_random random =
      lls_random_at((uint64_t)a->o->seed, LLS_STREAM_SESSION, number);
  char session[24];
  uint32_t turns = lls_lengths_draw(a->turns, &random);
  int rc = 0;
  snprintf(session, sizeof session, "agent-%u", number);
  for (uint32_t i = 0; rc == 0 && i < turns; i++)
    rc = make_turn(a, rows, session, i == 0, i + 1 == turns, &random, err);
  return rc;
}

int lls_make_agents(const struct lls_workload_options *o, uint32_t n,
                    struct lls_rows *rows, struct lls_error *err)
{
  struct agents a = {.o = o};
  int rc = parse(&a, err);
  for (uint32_t i = 0; rc == 0 && i < n; i++)
    rc = make_session(&a, i, rows, err);
  lls_lengths_free(a.turns);
  lls_lengths_free(a.first);
  lls_lengths_free(a.added);
  lls_lengths_free(a.outputs);
  return rc;
}
