/* SPDX-License-Identifier: Apache-2.0 */
/* Encoders against transformers' results for the same texts: t/data/encoder. */
#include "core/encoder/encoder.h"
#include "core/encoder/folder.h"
#include "core/encoder/service.h"
#include "core/model/dense.h"
#include "core/model/model_config.h"
#include "core/device/numbers.h"
#include "kernels/cpu/device.h"
#include "t/folder.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#define MOST_DIMS 64

static void path_of(const char *name, char *path, size_t size)
{
  const char *root = getenv("LLS_SRCDIR");
  snprintf(path, size, "%s/t/data/encoder/%s", root != NULL ? root : ".", name);
}

static json_t *reference(const char *folder)
{
  char path[8192];
  snprintf(path, sizeof path, "%s/reference.json", folder);
  json_t *root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  return root;
}

static struct lls_encoder_text text_at(const json_t *root, size_t i)
{
  const json_t *text = json_array_get(json_object_get(root, "texts"), i);
  return (struct lls_encoder_text){json_string_value(text), json_string_length(text)};
}

static double cosine(const json_t *root, size_t i, const float *vector)
{
  const json_t *row = json_array_get(json_object_get(root, "vectors"), i);
  double sum = 0, squares = 0, own = 0;
  for (size_t d = 0; d < json_array_size(row); d++) {
    double x = json_real_value(json_array_get(row, d));
    sum += x * (double)vector[d];
    squares += x * x;
    own += (double)vector[d] * (double)vector[d];
  }
  assert_true(fabs(own - 1) < 1e-5);
  return sum / sqrt(squares * own);
}

/* Encodes all texts in passes of max_rows; returns the smallest cosine to `name`'s
 * vectors. */
static double worst_in(const char *folder, const char *name, const char *isa,
                       enum lls_weight_format weights, uint32_t max_rows,
                       uint32_t threads)
{
  char expected[4096];
  struct lls_error err = {0};
  struct lls_encoder *e;
  path_of(name, expected, sizeof expected);
  struct lls_encoder_options o = {.cpu = &lls_cpu_device,
                                  .folder = folder,
                                  .isa = isa,
                                  .weights = weights,
                                  .max_rows = max_rows,
                                  .threads = threads};
  if (lls_encoder_create(&o, &e, &err) != 0)
    fail_msg("%s", err.text);
  json_t *root = reference(expected);
  size_t n = json_array_size(json_object_get(root, "texts"));
  struct lls_encoder_text texts[16];
  float vectors[16 * MOST_DIMS];
  for (size_t i = 0; i < n; i++)
    texts[i] = text_at(root, i);
  assert_int_equal(lls_encoder_encode(e, texts, n, vectors, &err), 0);
  double least = 1;
  for (size_t i = 0; i < n; i++) {
    double c = cosine(root, i, vectors + i * lls_encoder_dims(e));
    least = c < least ? c : least;
  }
  json_decref(root);
  lls_encoder_destroy(e);
  return least;
}

static double worst(const char *name, const char *isa, enum lls_weight_format weights,
                    uint32_t max_rows, uint32_t threads)
{
  char folder[4096];
  path_of(name, folder, sizeof folder);
  return worst_in(folder, name, isa, weights, max_rows, threads);
}

static void test_reference(void **state)
{
  (void)state;
  static const char *const names[] = {"mean",       "cls",   "roberta", "xlmr", "gte",
                                      "modernbert", "nomic", "mpnet",   "gemma"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    assert_true(worst(names[i], "generic", LLS_WEIGHTS_F32, 1, 1) > 1 - 1e-6);
    assert_true(worst(names[i], NULL, LLS_WEIGHTS_F32, 1, 1) > 1 - 1e-6);
    assert_true(worst(names[i], NULL, LLS_WEIGHTS_F32, 1000, 2) > 1 - 1e-6);
    assert_true(worst(names[i], NULL, LLS_WEIGHTS_BF16, 128, 1) > 0.9995);
  }
}

/* ---- halves ------------------------------------------------------------------------ */

static char *read_file(const char *name, size_t *bytes)
{
  char folder[4096], path[8192];
  path_of("mean", folder, sizeof folder);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *bytes = (size_t)ftell(file);
  rewind(file);
  char *data = malloc(*bytes + 1);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, *bytes, file), *bytes);
  data[*bytes] = '\0';
  fclose(file);
  return data;
}

/* Makes the header of a file of f32 tensors claim elements of two bytes. */
static char *halved_header(const char *header, size_t length, const char *type)
{
  const char *name;
  json_t *tensor, *root = json_loadb(header, length, 0, NULL);
  json_object_foreach(root, name, tensor)
  {
    json_t *offsets = json_object_get(tensor, "data_offsets");
    json_object_set_new(tensor, "dtype", json_string(type));
    for (size_t i = 0; i < 2; i++) {
      json_int_t at = json_integer_value(json_array_get(offsets, i));
      json_array_set_new(offsets, i, json_integer(at / 2));
    }
  }
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  return text;
}

static void write_halves(const struct folder *f, const char *type)
{
  size_t bytes, n;
  uint64_t length;
  char *file = read_file("model.safetensors", &bytes);
  memcpy(&length, file, sizeof length);
  const char *numbers = file + sizeof length + length;
  char *header = halved_header(file + sizeof length, length, type);
  n = (bytes - sizeof length - length) / sizeof(float);
  length = strlen(header);
  char *out = malloc(sizeof length + length + 2 * n);
  assert_non_null(out);
  memcpy(out, &length, sizeof length);
  memcpy(out + sizeof length, header, length);
  for (size_t i = 0; i < n; i++) {
    float x;
    memcpy(&x, numbers + i * sizeof x, sizeof x);
    uint16_t half = strcmp(type, "BF16") == 0 ? lls_f32_to_bf16(x) : lls_f32_to_f16(x);
    memcpy(out + sizeof length + length + 2 * i, &half, sizeof half);
  }
  folder_write(f, "model.safetensors", out, sizeof length + length + 2 * n);
  free(out);
  free(header);
  free(file);
}

/* Files of f16 and bf16, the usual types of encoders. */
static void test_halves(void **state)
{
  (void)state;
  static const char *const copied[] = {"config.json", "tokenizer.json",
                                       "sentence_bert_config.json"};
  struct folder f;
  size_t bytes;
  folder_make(&f);
  for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
    char *data = read_file(copied[i], &bytes);
    folder_write(&f, copied[i], data, bytes);
    free(data);
  }
  write_halves(&f, "F16");
  assert_true(worst_in(f.path, "mean", NULL, LLS_WEIGHTS_F32, 1000, 1) > 1 - 1e-5);
  write_halves(&f, "BF16");
  assert_true(worst_in(f.path, "mean", NULL, LLS_WEIGHTS_F32, 1000, 1) > 0.9995);
  assert_true(worst_in(f.path, "mean", NULL, LLS_WEIGHTS_BF16, 1000, 1) > 0.9995);
  folder_remove(&f);
}

/* ---- refusals ---------------------------------------------------------------------- */

static int create_in(const struct folder *f, const char *config, struct lls_error *err)
{
  struct lls_encoder *e;
  folder_write(f, "config.json", config, strlen(config));
  return lls_encoder_create(
      &(struct lls_encoder_options){.cpu = &lls_cpu_device, .folder = f->path}, &e, err);
}

static void test_refusals(void **state)
{
  (void)state;
  struct folder f;
  struct lls_error err;
  struct lls_model_config model;
  char path[4096];
  folder_make(&f);
  assert_int_equal(create_in(&f, "{\"architectures\": [\"LlamaForCausalLM\"]}", &err),
                   -ENOTSUP);
  assert_non_null(strstr(err.text, "not supported as an encoder; supported are BERT"));
  assert_int_equal(create_in(&f,
                             "{\"architectures\": [\"BertModel\"], \"hidden_size\": 8, "
                             "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
                             "\"vocab_size\": 10, \"max_position_embeddings\": 8, "
                             "\"intermediate_size\": 8, "
                             "\"position_embedding_type\": \"relative_key\"}",
                             &err),
                   -ENOTSUP);
  assert_non_null(strstr(err.text, "relative_key"));
  folder_remove(&f);
  path_of("pair", path, sizeof path);
  assert_int_equal(lls_encoder_config_read(path, &model, &err), -ENOTSUP);
  assert_non_null(strstr(err.text, "BertForSequenceClassification is not supported as an "
                                   "encoder; supported are BERT, RoBERTa"));
}

/* ---- Dense ------------------------------------------------------------------------- */

static int read_dense(const struct folder *f, const char *path, const char *config,
                      struct lls_error *err)
{
  char modules[256];
  struct lls_dense dense;
  snprintf(modules, sizeof modules,
           "[{\"type\": \"sentence_transformers.models.Dense\", \"path\": \"%s\"}]",
           path);
  folder_write(f, "modules.json", modules, strlen(modules));
  folder_write(f, "config.json", config, strlen(config));
  return lls_dense_read(f->path, &dense, err);
}

static void test_dense(void **state)
{
  (void)state;
  struct folder f;
  struct lls_error err;
  struct lls_dense dense;
  folder_make(&f);
  assert_int_equal(lls_dense_read(f.path, &dense, &err), 0);
  assert_int_equal(dense.n, 0);
  folder_write(&f, "modules.json", "{}", 2);
  assert_int_equal(lls_dense_read(f.path, &dense, &err), -EINVAL);
  assert_non_null(strstr(err.text, "should hold a JSON array of modules"));
  assert_int_equal(read_dense(&f, ".", "{\"in_features\": 4, \"out_features\": 3}", &err),
                   -ENOTSUP);
  assert_non_null(strstr(err.text, "a bias or an activation is not supported"));
  assert_int_equal(read_dense(&f, "../x", "{}", &err), -EINVAL);
  assert_non_null(strstr(err.text, "\"path\" should name a folder below it"));
  assert_int_equal(read_dense(&f, "missing", "{}", &err), -EINVAL);
  assert_non_null(strstr(err.text, "missing/config.json is missing"));
  folder_remove(&f);
}

static void copy_file(const char *from, const struct folder *to, const char *name,
                      char change)
{
  char path[4200], bytes[1 << 16];
  snprintf(path, sizeof path, "%s/%s", from, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t n = fread(bytes, 1, sizeof bytes, file);
  assert_true(n > 0 && n < sizeof bytes && feof(file));
  fclose(file);
  bytes[n - 1] ^= change;
  folder_write(to, name, bytes, n);
}

/* The fingerprint by which vectors of an earlier start are told apart has the matrices
 * behind the pooling, too. */
static void test_dense_fingerprint(void **state)
{
  (void)state;
  static const char *const files[] = {"config.json",
                                      "modules.json",
                                      "1_Pooling/config.json",
                                      "2_Dense/config.json",
                                      "2_Dense/model.safetensors",
                                      "3_Dense/config.json",
                                      "3_Dense/model.safetensors"};
  static const char *const parts[] = {"1_Pooling", "2_Dense", "3_Dense"};
  struct lls_encoder_folder first, same, other;
  struct lls_error err;
  char from[4096], part[128];
  struct folder f;
  path_of("gemma", from, sizeof from);
  folder_make(&f);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(part, sizeof part, "%s/%s", f.path, parts[i]);
    assert_int_equal(mkdir(part, 0700), 0);
  }
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    copy_file(from, &f, files[i], 0);
  assert_int_equal(lls_encoder_folder_read(f.path, &first, &err), 0);
  assert_int_equal(lls_encoder_folder_read(f.path, &same, &err), 0);
  assert_true(first.fingerprint == same.fingerprint);
  for (size_t i = 4; i < sizeof files / sizeof *files; i += 2) {
    copy_file(from, &f, files[i], 1);
    assert_int_equal(lls_encoder_folder_read(f.path, &other, &err), 0);
    assert_true(first.fingerprint != other.fingerprint);
    copy_file(from, &f, files[i], 0);
  }
  for (size_t i = 2; i < sizeof files / sizeof *files; i++) {
    snprintf(part, sizeof part, "%s/%s", f.path, files[i]);
    unlink(part);
  }
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(part, sizeof part, "%s/%s", f.path, parts[i]);
    rmdir(part);
  }
  folder_remove(&f);
}

/* ---- the service ------------------------------------------------------------------- */

#define TEXTS 9

struct heard {
  pthread_mutex_t lock;
  pthread_cond_t more;
  unsigned n;
  float vectors[TEXTS * 50][MOST_DIMS];
};

static void on_done(void *context, uint64_t tag, int rc, const float *vector)
{
  struct heard *h = context;
  pthread_mutex_lock(&h->lock);
  if (rc == 0)
    memcpy(h->vectors[tag], vector, sizeof h->vectors[tag]);
  h->n++;
  pthread_cond_signal(&h->more);
  pthread_mutex_unlock(&h->lock);
}

static void test_service(void **state)
{
  (void)state;
  static struct heard h = {.lock = PTHREAD_MUTEX_INITIALIZER,
                           .more = PTHREAD_COND_INITIALIZER};
  char folder[4096];
  char why[256] = "";
  struct lls_embed_service s;
  struct lls_embedder *e;
  path_of("mean", folder, sizeof folder);
  lls_embed_service_init(&s, &lls_cpu_device, "model", NULL);
  const struct lls_embed *embed = &s.embed;
  struct lls_embed_options o = {.size = sizeof o,
                                .threads = 1,
                                .max_queued = TEXTS * 50,
                                .done = on_done,
                                .done_context = &h,
                                .why = why,
                                .why_bytes = sizeof why};
  assert_int_equal(embed->open(embed->context, &o, &e), -ENOENT);
  assert_non_null(strstr(why, "no encoder is named"));
  o.folder = folder;
  assert_int_equal(embed->open(embed->context, &o, &e), 0);
  struct lls_embedder_info info = {.size = sizeof info};
  embed->describe(e, &info);
  assert_int_equal(info.dims, 64);
  json_t *root = reference(folder);
  for (unsigned i = 0; i < TEXTS * 50; i++) {
    struct lls_encoder_text t = text_at(root, i % TEXTS);
    assert_int_equal(embed->submit(e, i, t.text, t.bytes), 0);
  }
  float vector[MOST_DIMS];
  struct lls_encoder_text first = text_at(root, 1);
  assert_int_equal(embed->encode(e, first.text, first.bytes, vector), 0);
  assert_true(cosine(root, 1, vector) > 0.999);
  pthread_mutex_lock(&h.lock);
  while (h.n < TEXTS * 50)
    pthread_cond_wait(&h.more, &h.lock);
  pthread_mutex_unlock(&h.lock);
  for (unsigned i = 0; i < TEXTS * 50; i++)
    assert_true(cosine(root, i % TEXTS, h.vectors[i]) > 0.999);
  embed->close(e);

  o.max_queued = 0;
  assert_int_equal(embed->open(embed->context, &o, &e), 0);
  assert_int_equal(embed->submit(e, 0, "x", 1), -ENOSPC);
  embed->close(e);
  json_decref(root);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),         cmocka_unit_test(test_halves),
      cmocka_unit_test(test_refusals),          cmocka_unit_test(test_dense),
      cmocka_unit_test(test_dense_fingerprint), cmocka_unit_test(test_service),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
