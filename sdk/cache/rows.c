/* SPDX-License-Identifier: Apache-2.0 */
/* The block lists of sequences; see rows.h. */
#include <llmserve/policy/rows.h>

#include <stdlib.h>
#include <string.h>

static const size_t most_bytes = (size_t)1 << 30;

static void set(struct lls_pol_rows *r, uint32_t *where, uint32_t value)
{
  lls_pol_journal_set(r->journal, where, value);
}

/* ---- life ------------------------------------------------------------------------- */

uint32_t lls_pol_rows_affordable(const struct lls_pol_rows *r, uint32_t least,
                                 uint32_t most)
{
  size_t bytes = (size_t)r->n_groups * r->row_blocks * sizeof *r->entries;
  size_t affordable = bytes > 0 ? most_bytes / bytes : least;
  uint32_t rows = affordable > UINT32_MAX ? UINT32_MAX : (uint32_t)affordable;
  return lls_pol_min(lls_pol_max(rows, least), most);
}

int lls_pol_rows_init(struct lls_pol_rows *r)
{
  size_t lists = (size_t)r->n_slots * r->n_groups;
  r->sequences = calloc(r->n_slots, sizeof *r->sequences);
  r->lists = calloc(lists, sizeof *r->lists);
  r->entries =
      calloc((size_t)r->n_rows * r->n_groups * r->row_blocks, sizeof *r->entries);
  r->tables = calloc(lists, sizeof *r->tables);
  r->row_next = calloc(r->n_rows, sizeof *r->row_next);
  r->marks = calloc(r->n_rows, sizeof *r->marks);
  return r->sequences && r->lists && r->entries && r->tables && r->row_next && r->marks
             ? 0
             : -ENOMEM;
}

void lls_pol_rows_destroy(struct lls_pol_rows *r)
{
  free(r->sequences);
  free(r->lists);
  free(r->entries);
  free(r->tables);
  free(r->row_next);
  free(r->marks);
}

void lls_pol_rows_make_empty(struct lls_pol_rows *r)
{
  lls_pol_chain_stack(&r->first_free, r->row_next, r->n_rows);
  r->n_free = r->n_rows;
  for (uint32_t i = 0; i < r->n_slots; i++)
    r->sequences[i] = (struct lls_pol_sequence){.row = LLS_POL_NIL};
  memset(r->lists, 0, (size_t)r->n_slots * r->n_groups * sizeof *r->lists);
}

/* ---- sequences -------------------------------------------------------------------- */

struct lls_pol_sequence *lls_pol_rows_find(const struct lls_pol_rows *r,
                                           const struct lls_request *request)
{
  struct lls_pol_sequence *s =
      request->slot < r->n_slots ? &r->sequences[request->slot] : NULL;
  return s != NULL && s->admitted && s->request == request->id ? s : NULL;
}

int lls_pol_rows_admit(struct lls_pol_rows *r, const struct lls_request *request)
{
  if (request->slot >= r->n_slots || r->sequences[request->slot].admitted)
    return -EINVAL;
  r->sequences[request->slot] = (struct lls_pol_sequence){
      .request = request->id, .admitted = true, .row = LLS_POL_NIL};
  return 0;
}

void lls_pol_rows_begin(struct lls_pol_rows *r, struct lls_pol_sequence *s)
{
  uint32_t row = r->first_free;
  LLS_POL_CHECK(s->row == LLS_POL_NIL && r->n_free > 0 && row < r->n_rows);
  set(r, &r->first_free, r->row_next[row]);
  set(r, &r->n_free, r->n_free - 1);
  set(r, &s->row, row);
  set(r, &s->where, LLS_POL_ON_DEVICE);
}

void lls_pol_rows_end(struct lls_pol_rows *r, struct lls_pol_sequence *s)
{
  set(r, &r->row_next[s->row], r->first_free);
  set(r, &r->first_free, s->row);
  set(r, &r->n_free, r->n_free + 1);
  set(r, &s->row, LLS_POL_NIL);
  set(r, &s->where, LLS_POL_NOWHERE);
  set(r, &s->cached, 0);
  set(r, &s->partial, 0);
  for (uint32_t group = 0; group < r->n_groups; group++) {
    struct lls_pol_list *list = lls_pol_rows_list(r, s, group);
    set(r, &list->gone, 0);
    set(r, &list->past, 0);
    set(r, &list->known, 0);
    set(r, &list->small, 0);
  }
}

/* ---- lists ------------------------------------------------------------------------ */

/* First token and direction depend on the place alone. The form shares a word with them,
 * which has to be written down for a rollback as a whole. */
void lls_pol_rows_put(struct lls_pol_rows *r, const struct lls_pol_sequence *s,
                      uint32_t group, uint32_t i, uint32_t unit, uint32_t form)
{
  struct lls_block_entry *e = lls_pol_rows_entries(r, s, group) + i, next = {0};
  lls_pol_word word;
  LLS_POL_CHECK(s->row < r->n_rows && i < r->row_blocks);
  next.count = (uint16_t)r->block_tokens;
  next.form = (uint8_t)form;
  memcpy(&word, &next.count, sizeof word);
  e->first_token = i * r->block_tokens;
  if (e->form != form || e->count != next.count)
    set(r, (uint32_t *)(void *)&e->count, word);
  set(r, &e->block, unit);
}

void lls_pol_rows_put_state(struct lls_pol_rows *r, const struct lls_pol_sequence *s,
                            uint32_t group, uint32_t i, uint32_t unit, uint32_t tokens)
{
  struct lls_block_entry *e = lls_pol_rows_entries(r, s, group) + i;
  LLS_POL_CHECK(s->row < r->n_rows && i < LLS_POL_MAX_STATES);
  set(r, &e->first_token, tokens);
  set(r, &e->block, unit);
}

static void list_moved(struct lls_pol_rows *r, const struct lls_pol_sequence *s,
                       uint32_t group, uint32_t first, uint32_t block_units,
                       const uint32_t *to, uint32_t n)
{
  const struct lls_pol_list *list = lls_pol_rows_list(r, s, group);
  struct lls_block_entry *entries = lls_pol_rows_entries(r, s, group);
  uint32_t end = s->where == LLS_POL_ON_DEVICE ? list->past : list->back;
  for (uint32_t i = list->gone; i < end; i++) {
    uint32_t at = entries[i].block - first; /* wraps around below `first` */
    if (at < n * block_units)
      set(r, &entries[i].block, to[at / block_units]);
  }
}

void lls_pol_rows_moved(struct lls_pol_rows *r, uint32_t first, uint32_t block_units,
                        const uint32_t *to, uint32_t n)
{
  for (uint32_t slot = 0; slot < r->n_slots; slot++)
    for (uint32_t group = 0; group < r->n_groups; group++)
      if (r->sequences[slot].row != LLS_POL_NIL)
        list_moved(r, &r->sequences[slot], group, first, block_units, to, n);
}

void lls_pol_rows_table(struct lls_pol_rows *r, const struct lls_pol_sequence *s,
                        struct lls_block_table *out)
{
  struct lls_group_list *tables = &r->tables[(size_t)(s - r->sequences) * r->n_groups];
  for (uint32_t group = 0; group < r->n_groups; group++) {
    uint32_t gone = lls_pol_rows_list(r, s, group)->gone;
    tables[group] =
        (struct lls_group_list){.entries = lls_pol_rows_entries(r, s, group) + gone,
                                .n_entries = lls_pol_rows_held(r, s, group)};
  }
  *out = (struct lls_block_table){.n_groups = r->n_groups, .lists = tables};
}

/* ---- a state ---------------------------------------------------------------------- */

static uint32_t list_room(const struct lls_pol_rows *r, uint32_t group)
{
  return lls_pol_rows_is_state(r, group) ? LLS_POL_MAX_STATES : r->row_blocks;
}

/* The units of a list: the rest of its row is empty. */
static int pass_list(struct lls_pol_rows *r, struct lls_pol_state_walk *w,
                     const struct lls_pol_sequence *s, uint32_t group)
{
  const struct lls_pol_list *list = lls_pol_rows_list(r, s, group);
  if (list->past > list_room(r, group) || list->gone > list->past)
    return -EINVAL;
  for (uint32_t i = list->gone; i < list->past; i++) {
    uint32_t unit = lls_pol_rows_entries(r, s, group)[i].block;
    uint32_t form = lls_pol_rows_entries(r, s, group)[i].form;
    uint32_t tokens = lls_pol_rows_entries(r, s, group)[i].first_token;
    bool state = lls_pol_rows_is_state(r, group);
    lls_pol_state_pass(w, &unit, sizeof unit);
    lls_pol_state_pass(w, state ? &tokens : &form, sizeof form);
    if (lls_pol_state_is_read(w) && state)
      lls_pol_rows_put_state(r, s, group, i, unit, tokens);
    else if (lls_pol_state_is_read(w))
      lls_pol_rows_put(r, s, group, i, unit, form);
  }
  return 0;
}

int lls_pol_rows_pass(struct lls_pol_rows *r, struct lls_pol_state_walk *w)
{
  int rc = 0;
  lls_pol_state_pass(w, &r->first_free, sizeof r->first_free);
  lls_pol_state_pass(w, &r->n_free, sizeof r->n_free);
  lls_pol_state_pass(w, r->row_next, r->n_rows * sizeof *r->row_next);
  lls_pol_state_pass(w, r->sequences, r->n_slots * sizeof *r->sequences);
  lls_pol_state_pass(w, r->lists, (size_t)r->n_slots * r->n_groups * sizeof *r->lists);
  if (lls_pol_state_is_torn(w))
    return -EINVAL;
  for (uint32_t slot = 0; slot < r->n_slots; slot++) {
    const struct lls_pol_sequence *s = &r->sequences[slot];
    if (s->row != LLS_POL_NIL && s->row >= r->n_rows)
      return -EINVAL;
    for (uint32_t g = 0; g < r->n_groups && s->row != LLS_POL_NIL && rc == 0; g++)
      rc = pass_list(r, w, s, g);
  }
  return rc;
}

/* ---- audit ------------------------------------------------------------------------ */

/* Room for the tokens, or a state that has seen them? */
static bool holds_tokens(const struct lls_pol_rows *r, const struct lls_pol_sequence *s,
                         uint32_t group)
{
  uint32_t past = lls_pol_rows_list(r, s, group)->past;
  if (s->partial)
    return true;
  if (lls_pol_rows_is_state(r, group))
    return past > 0 || s->cached == 0;
  return ((uint64_t)s->cached + r->block_tokens - 1) / r->block_tokens <= past;
}

static void audit_entry(struct lls_pol_rows *r, struct lls_pol_report *a,
                        const struct lls_pol_sequence *s, uint32_t group, uint32_t i)
{
  const struct lls_block_entry *e = lls_pol_rows_entries(r, s, group) + i;
  bool state = lls_pol_rows_is_state(r, group);
  bool good = state
                  ? e->count == 0 && (i > 0 || e->first_token == s->cached)
                  : e->first_token == i * r->block_tokens && e->count == r->block_tokens;
  lls_pol_report_check(a, good, "broken block list", s->row);
  if (state)
    lls_pol_report_say(a, " %" PRIu32 " after %" PRIu32, e->block, e->first_token);
  else
    lls_pol_report_say(a, " %" PRIu32 ":%u", e->block, e->form);
}

static void audit_list(struct lls_pol_rows *r, struct lls_pol_report *a,
                       const struct lls_pol_sequence *s, uint32_t group)
{
  const struct lls_pol_list *list = lls_pol_rows_list(r, s, group);
  lls_pol_report_say(a,
                     "; group %" PRIu32 ": gone %" PRIu32 ", known %" PRIu32
                     ", small %" PRIu32 ", units",
                     group, list->gone, list->known, list->small);
  if (!lls_pol_report_check(a,
                            list->gone <= list->past && list->past <= list_room(r, group),
                            "bad list length", s->row) ||
      !lls_pol_report_check(a, holds_tokens(r, s, group), "more tokens than room",
                            s->row))
    return;
  lls_pol_report_check(a, list->back == 0, "on two tiers", s->row);
  for (uint32_t i = list->gone; i < list->past; i++)
    audit_entry(r, a, s, group, i);
}

static void audit_sequence(struct lls_pol_rows *r, struct lls_pol_report *a,
                           uint32_t slot)
{
  static const char *const names[] = {"nowhere", "on the device", "on the host"};
  const struct lls_pol_sequence *s = &r->sequences[slot];
  if (!lls_pol_report_check(
          a, s->admitted <= 1 && s->partial <= 1 && s->where <= LLS_POL_ON_HOST,
          "no such state of a sequence", slot) ||
      !lls_pol_report_check(a, (s->row != LLS_POL_NIL) == (s->where != LLS_POL_NOWHERE),
                            "list without a row", slot) ||
      !lls_pol_report_check(a, s->admitted || s->row == LLS_POL_NIL,
                            "blocks of no request", slot) ||
      s->row == LLS_POL_NIL)
    return;
  if (!lls_pol_report_check(a, s->row < r->n_rows, "row number too large", slot) ||
      !lls_pol_report_check(a, r->marks[s->row]++ == 0, "row used twice", s->row))
    return;
  lls_pol_report_say(a, "slot %" PRIu32 ": request %" PRIu64 " %s, cached %" PRIu32, slot,
                     s->request, names[s->where], s->cached);
  lls_pol_report_say(a, ", row %" PRIu32, s->row);
  for (uint32_t group = 0; group < r->n_groups; group++)
    audit_list(r, a, s, group);
  lls_pol_report_end_line(a);
}

bool lls_pol_rows_audit(struct lls_pol_rows *r, struct lls_pol_report *a)
{
  uint32_t n = 0;
  memset(r->marks, 0, r->n_rows * sizeof *r->marks);
  lls_pol_report_say(a, "rows %" PRIu32 ":", r->n_free);
  for (uint32_t row = r->first_free; row != LLS_POL_NIL; row = r->row_next[row], n++) {
    if (!lls_pol_report_check(a, row < r->n_rows, "free rows lead outside", row) ||
        !lls_pol_report_check(a, r->marks[row]++ == 0, "twice among the free rows", row))
      return false;
    lls_pol_report_say(a, " %" PRIu32, row);
  }
  lls_pol_report_end_line(a);
  lls_pol_report_check(a, n == r->n_free, "free rows are counted wrong", n);
  for (uint32_t slot = 0; slot < r->n_slots && a->result == 0; slot++)
    audit_sequence(r, a, slot);
  for (uint32_t row = 0; row < r->n_rows; row++)
    lls_pol_report_check(a, r->marks[row] == 1, "row lost", row);
  return a->result == 0;
}
