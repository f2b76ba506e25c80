/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See hub_choice.h. A quantisation is found in a file's name as a word of its own, in
 * any case: "Q4_K_M" in "x-Q4_K_M.gguf" and in "Q4_K_M/x-Q4_K_M-00001-of-00002.gguf", not
 * in "x-IQ4_K_M.gguf"; "Q4_K" not in "x-Q4_K_M.gguf".
 */
#include "core/hub/hub_choice.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/json_parse.h"

#define INDEX   "model.safetensors.index.json"
#define WEIGHTS "model.safetensors"
#define FIRST_QUANT                                                                      \
  "Q4_K_M" /* of a repository of GGUF files, if no other was asked for */
#define PART       "-00000-of-00000" /* form of a split set's number */
#define MOST_NAMED 8

struct list {
  char *files;
  size_t n, element;
};

static struct lls_hub_file *at(const struct list *l, size_t i)
{
  return (struct lls_hub_file *)(void *)(l->files + i * l->element);
}

static struct lls_hub_file *find(const struct list *l, const char *name)
{
  for (size_t i = 0; i < l->n; i++)
    if (strcmp(at(l, i)->name, name) == 0)
      return at(l, i);
  return NULL;
}

static bool ends_with(const char *text, const char *suffix)
{
  size_t length = strlen(text), end = strlen(suffix);
  return length >= end && strcasecmp(text + length - end, suffix) == 0;
}

/* ---- a folder ---------------------------------------------------------------------- */

/* True for the folders of sentence-transformers' modules, 1_Pooling and so on. */
static bool is_module(const char *name)
{
  const char *slash = strchr(name, '/');
  return isdigit((unsigned char)name[0]) && name[1] == '_' && slash != NULL &&
         (strcmp(slash, "/config.json") == 0 || strcmp(slash, "/" WEIGHTS) == 0);
}

static bool is_small_file(const char *name)
{
  static const char *const names[] = {"config.json",
                                      "generation_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "tokenizer.model",
                                      "vocab.json",
                                      "merges.txt",
                                      "vocab.txt",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "chat_template.jinja",
                                      "chat_template.json",
                                      "modules.json",
                                      "sentence_bert_config.json",
                                      "config_sentence_transformers.json",
                                      "quantize_config.json",
                                      "quant_config.json",
                                      "hf_quant_config.json",
                                      INDEX};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0)
      return true;
  return is_module(name) || strncmp(name, "additional_chat_templates/",
                                    strlen("additional_chat_templates/")) == 0;
}

static int choose_folder(const struct list *l, struct lls_hub_choice *choice,
                         struct lls_error *err)
{
  struct lls_hub_file *index = find(l, INDEX), *weights = find(l, WEIGHTS);
  if (find(l, "config.json") == NULL && find(l, "adapter_config.json") != NULL)
    return lls_fail(
        err, -ENOENT,
        "it is a LoRA adapter; fetch its model, and name the adapter's folder in [lora]");
  if (find(l, "config.json") == NULL)
    return lls_fail(err, -ENOENT, "it has neither a config.json nor a .gguf file");
  if (index == NULL && weights == NULL)
    return lls_fail(err, -ENOENT,
                    "it has no weights as safetensors (" WEIGHTS ", or " INDEX ")");
  for (size_t i = 0; i < l->n; i++)
    at(l, i)->wanted = is_small_file(at(l, i)->name);
  if (index != NULL)
    choice->index = index->name;
  else
    weights->wanted = true;
  return 0;
}

/* Returns the names of tensors' files in an index, or NULL. */
static json_t *read_index(const char *path, struct lls_error *err)
{
  json_error_t why;
  json_t *index = lls_json_parse_file(path, 0, &why);
  json_t *map = json_object_get(index, "weight_map");
  if (json_is_object(map))
    return index;
  json_decref(index);
  lls_fail(err, -EINVAL, "%s has no weight_map", path);
  return NULL;
}

int lls_hub_choose_weights(void *files, size_t n, size_t element, const char *path,
                           struct lls_error *err)
{
  const struct list l = {files, n, element};
  json_t *index = read_index(path, err), *file;
  const char *tensor;
  int rc = index != NULL ? 0 : -EINVAL;
  json_object_foreach(json_object_get(index, "weight_map"), tensor, file)
  {
    const char *name = json_string_value(file);
    struct lls_hub_file *weights = name != NULL ? find(&l, name) : NULL;
    if (weights != NULL)
      weights->wanted = true;
    else if (rc == 0)
      rc = lls_fail(err, -ENOENT, "%s names %s for tensor %.100s, which is missing",
                    INDEX, name != NULL ? name : "no file", tensor);
  }
  json_decref(index);
  return rc;
}

/* ---- one GGUF file ----------------------------------------------------------------- */

/* Returns the place of "-00001-of-00003.gguf" at a name's end, or NULL. */
static const char *part_of(const char *name)
{
  size_t length = strlen(name), end = strlen(PART ".gguf");
  if (length < end || !ends_with(name, ".gguf"))
    return NULL;
  const char *part = name + length - end;
  for (size_t i = 0; i < strlen(PART); i++)
    if (PART[i] == '0' ? !isdigit((unsigned char)part[i]) : part[i] != PART[i])
      return NULL;
  return part;
}

static bool is_first(const char *name)
{
  const char *part = part_of(name);
  return part == NULL || strncmp(part, "-00001-", 7) == 0;
}

/* True for a file that is a model by itself: images' projectors and importance matrices
 * are GGUF files, too. */
static bool is_model(const char *name)
{
  const char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name;
  return ends_with(name, ".gguf") && strncasecmp(base, "mmproj", 6) != 0 &&
         strcasestr(base, "imatrix") == NULL && is_first(name);
}

/* Returns the place of the quantisation in a name, the last one; NULL if it is not in
 * it. */
static const char *find_quant(const char *name, const char *quant)
{
  const char *found = NULL, *from = name;
  size_t length = strlen(quant);
  for (const char *next; (next = strcasestr(from, quant)) != NULL; from = next + 1)
    if ((next == name || strchr("-._/", next[-1]) != NULL) &&
        strchr("-./", next[length]) != NULL)
      found = next;
  return found;
}

static unsigned depth_of(const char *name)
{
  unsigned n = 0;
  for (; (name = strchr(name, '/')) != NULL; name++)
    n++;
  return n;
}

/* True if a is to be taken rather than b: what lies higher, then the shorter name, which
 * has fewer words before its quantisation, such as UD-. */
static bool is_better(const char *a, const char *b)
{
  unsigned x = depth_of(a), y = depth_of(b);
  size_t n = strlen(a), m = strlen(b);
  return x != y ? x < y : n != m ? n < m : strcmp(a, b) < 0;
}

/* Two files of the same quantisation are of one model if one's name is the other's but
 * for words such as UD- before the quantisation. */
static bool is_same_model(const char *a, const char *b, const char *quant)
{
  const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
  x = x != NULL ? x + 1 : a;
  y = y != NULL ? y + 1 : b;
  const char *end = find_quant(x, quant);
  size_t length = end != NULL ? (size_t)(end - x) : 0;
  return strncasecmp(x, y, length) == 0;
}

static void name_models(const struct list *l, char *text, size_t size)
{
  size_t length = 0, named = 0;
  text[0] = '\0';
  for (size_t i = 0; i < l->n; i++) {
    if (!is_model(at(l, i)->name))
      continue;
    if (named++ == MOST_NAMED) {
      snprintf(text + length, size - length, ", ...");
      return;
    }
    int n = snprintf(text + length, size - length, "%s%s", named > 1 ? ", " : "",
                     at(l, i)->name);
    if (n < 0 || length + (size_t)n >= size)
      return;
    length += (size_t)n;
  }
}

/* Finds the file of a quantisation, or of a name. *two gets another model's file that
 * has the quantisation too. */
static const char *find_model(const struct list *l, const char *quant, const char **two)
{
  const char *best = NULL;
  for (size_t i = 0; i < l->n; i++) {
    const char *name = at(l, i)->name;
    if (strcmp(name, quant) == 0 && ends_with(name, ".gguf"))
      return *two = NULL, name;
    if (is_model(name) && find_quant(name, quant) != NULL &&
        (best == NULL || is_better(name, best)))
      best = name;
  }
  *two = NULL;
  for (size_t i = 0; best != NULL && i < l->n; i++) {
    const char *name = at(l, i)->name;
    if (is_model(name) && find_quant(name, quant) != NULL &&
        depth_of(name) == depth_of(best) && !is_same_model(best, name, quant))
      *two = name;
  }
  return best;
}

/* Marks a file and, of a split set, the other parts. Returns -ENOENT if one is missing.
 */
static int mark_parts(const struct list *l, const char *first, struct lls_error *err)
{
  const char *part = part_of(first);
  if (part == NULL) {
    find(l, first)->wanted = true;
    return 0;
  }
  unsigned parts = 0;
  sscanf(part, "-%*5u-of-%5u", &parts);
  for (unsigned i = 1; i <= parts; i++) {
    char name[1024];
    snprintf(name, sizeof name, "%.*s-%05u-of-%05u.gguf", (int)(part - first), first, i,
             parts);
    struct lls_hub_file *file = find(l, name);
    if (file == NULL)
      return lls_fail(err, -ENOENT, "%s, a part of a split set, is missing", name);
    file->wanted = true;
  }
  return 0;
}

static size_t count_models(const struct list *l, const char **only)
{
  size_t n = 0;
  for (size_t i = 0; i < l->n; i++)
    if (is_model(at(l, i)->name))
      *only = at(l, i)->name, n++;
  return n;
}

static int choose_gguf(const struct list *l, const char *quant,
                       struct lls_hub_choice *choice, struct lls_error *err)
{
  const char *two = NULL, *only = NULL;
  char names[LLS_ERROR_MAX / 2];
  size_t n = count_models(l, &only);
  if (quant[0] != '\0')
    choice->gguf = find_model(l, quant, &two);
  else
    choice->gguf = n == 1 ? only : find_model(l, FIRST_QUANT, &two);
  name_models(l, names, sizeof names);
  if (n == 0)
    return lls_fail(err, -ENOENT,
                    "it has no .gguf file, so nothing is to be named behind ':'");
  if (two != NULL)
    return lls_fail(err, -ENOENT,
                    "%s and %s are two models: name the file behind ':', as in :%s",
                    choice->gguf, two, choice->gguf);
  if (choice->gguf == NULL)
    return lls_fail(err, -ENOENT,
                    "none of its GGUF files is %s; name one of these, or its "
                    "quantisation, behind ':': %s",
                    quant[0] != '\0' ? quant : FIRST_QUANT, names);
  return mark_parts(l, choice->gguf, err);
}

int lls_hub_choose(void *files, size_t n, size_t element, const char *quant,
                   struct lls_hub_choice *choice, struct lls_error *err)
{
  const struct list l = {files, n, element};
  const char *only;
  *choice = (struct lls_hub_choice){0};
  for (size_t i = 0; i < n; i++)
    at(&l, i)->wanted = false;
  bool folder = find(&l, INDEX) != NULL || find(&l, WEIGHTS) != NULL;
  if (quant[0] != '\0' || (!folder && count_models(&l, &only) > 0))
    return choose_gguf(&l, quant, choice, err);
  return choose_folder(&l, choice, err);
}
