/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what a hub sends, and the name that a user gives: the first line is a name,
 * then come header lines up to an empty one, then the list of a model's files, which is
 * also read as an index of weights. An accepted name and every file of a list stay
 * inside their folder; a refusal has a sentence.
 */
#include "core/hub/hub_answer.h"
#include "core/hub/hub_listing.h"
#include "t/fuzz/fuzz.h"

static void check_inside(const char *path)
{
  assert(path[0] != '\0' && path[0] != '/');
  for (const char *part = path; part != NULL; part = strchr(part, '/')) {
    part += part != path;
    assert(strncmp(part, "..", 2) != 0);
  }
}

static bool check_name(const char *text, struct lls_hub_name *name)
{
  if (!lls_hub_name_read(text, name))
    return false;
  assert(strchr(name->owner, '/') == NULL && strchr(name->name, '/') == NULL);
  check_inside(name->owner);
  check_inside(name->name);
  if (name->quant[0] != '\0')
    check_inside(name->quant);
  return true;
}

/* Returns the place behind the header lines. */
static const char *check_headers(const char *at, const char *end,
                                 const struct lls_hub_name *name)
{
  static const long statuses[] = {401, 403, 404, 416, 429, 500};
  const struct lls_hub_places places = {.endpoint = "http://hub"};
  struct lls_hub_answer answer = {0};
  while (at < end && *at != '\n') {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    size_t length = (size_t)((line != NULL ? line : end) - at);
    char *copy = malloc(length + 1); /* the header is not NUL-terminated */
    assert(copy != NULL);
    memcpy(copy, at, length);
    copy = realloc(copy, length > 0 ? length : 1);
    lls_hub_answer_header(&answer, copy, length);
    free(copy);
    at += length + (line != NULL);
  }
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
    struct lls_error err = {0};
    answer.status = statuses[i];
    assert(lls_hub_refusal(&answer, &places, name, i % 2 ? "x" : NULL, &err) < 0);
    assert(err.text[0] != '\0');
  }
  return at < end ? at + 1 : end;
}

static void check_list(const char *text, size_t length, const char *quant)
{
  struct lls_hub_listing list;
  struct lls_hub_choice choice;
  struct lls_error err = {0};
  if (lls_hub_listing_read(text, length, &list) < 0) {
    assert(list.n == 0 && list.files == NULL);
    return;
  }
  for (size_t i = 0; i < list.n; i++)
    check_inside(list.files[i].file.name);
  size_t element = sizeof *list.files;
  int rc = lls_hub_choose(list.files, list.n, element, quant, &choice, &err);
  assert(rc == 0 || err.text[0] != '\0');
  if (rc == 0 && choice.index != NULL) {
    const char *path = fuzz_file("index.json", text, length);
    rc = lls_hub_choose_weights(list.files, list.n, element, path, &err);
    assert(rc == 0 || err.text[0] != '\0');
    fuzz_forget("index.json");
  }
  lls_hub_listing_free(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *text = (const char *)data, *end = text + size;
  const char *line = size > 0 ? memchr(text, '\n', size) : NULL;
  struct lls_hub_name name;
  char first[512];
  size_t length = line != NULL ? (size_t)(line - text) : size;
  snprintf(first, sizeof first, "%.*s", (int)(length < 500 ? length : 500),
           size > 0 ? text : "");
  bool named = check_name(first, &name);
  if (line == NULL)
    return 0;
  const char *rest = check_headers(line + 1, end, &name);
  check_list(rest, (size_t)(end - rest), "");
  if (named && name.quant[0] != '\0')
    check_list(rest, (size_t)(end - rest), name.quant);
  return 0;
}
