/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the description of quantised weights in config.json; see quantisation.h. Each
 * family of methods has a file: quantised_words.c, quantised_compressed.c and
 * quantised_bytes.c. */
#include "core/model/quantisation.h"

#include <errno.h>
#include <string.h>

#include "core/model/config_keys.h"
#include "core/model/quantisation_methods.h"

static int read_fp8(const struct lls_json *j, struct lls_quantisation *out,
                    struct lls_error *err)
{
  struct lls_scheme scheme = {.layout = LLS_CODED_FP8, .bits = 8, .symmetric = true};
  const char *format;
  int rc = lls_json_string_or(j, "fmt", "e4m3", &format, err);
  if (rc == 0 && strcmp(format, "e4m3") != 0)
    return lls_quantisation_refuse(j, "fmt", format, err);
  if (rc == 0)
    rc = lls_quantisation_block(j, "weight_block_size", &scheme, err);
  return rc == 0 ? lls_quantisation_add(j, out, &scheme, err) : rc;
}

static int read_method(const struct lls_json *j, const char *method,
                       struct lls_quantisation *out, struct lls_error *err)
{
  static const struct {
    const char *name;
    int (*read)(const struct lls_json *, struct lls_quantisation *, struct lls_error *);
  } methods[] = {
      {"gptq", lls_quantisation_gptq},
      {"awq", lls_quantisation_awq},
      {"auto-round", lls_quantisation_auto_round},
      {"intel/auto-round", lls_quantisation_auto_round},
      {"compressed-tensors", lls_quantisation_compressed},
      {"modelopt", lls_quantisation_modelopt},
      {"modelopt_fp4", lls_quantisation_modelopt},
      {"bitsandbytes", lls_quantisation_bitsandbytes},
      {"fp8", read_fp8},
      {"fbgemm_fp8", read_fp8},
  };
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strcmp(methods[i].name, method) == 0)
      return methods[i].read(j, out, err);
  if (strcmp(method, "mxfp4") != 0)
    return lls_quantisation_refuse(j, "quant_method", method, err);
  /* MXFP4: core/model/gpt_oss.c reads the experts' blocks; all other weights are plain */
  out->is_quantised = false;
  return 0;
}

/* modelopt's own file has the same keys in "quantization". */
static int bring_modelopt(const char *folder, struct lls_json *config,
                          struct lls_error *err)
{
  struct lls_json file;
  int rc = lls_json_read(folder, "hf_quant_config.json", &file, err);
  if (rc < 0)
    return rc == -ENOENT ? 0 : rc;
  json_t *object = lls_json_get(&file, "quantization");
  if (json_is_string(json_object_get(object, "quant_algo")) &&
      (json_object_set_new(object, "quant_method", json_string("modelopt")) != 0 ||
       json_object_set(config->root, "quantization_config", object) != 0))
    rc = lls_fail(err, -ENOMEM, "%s: out of memory", config->file);
  lls_json_close(&file);
  return rc;
}

int lls_quantisation_bring(const char *folder, struct lls_json *config,
                           struct lls_error *err)
{
  static const char key[] = "quantization_config";
  json_t *text = json_object_get(config->root, "text_config"),
         *old = json_object_get(config->root, "compression_config"),
         *found = json_object_get(text, key);
  if (json_is_object(json_object_get(config->root, key)))
    return 0;
  found = found != NULL ? found : old;
  if (found == NULL)
    return bring_modelopt(folder, config, err);
  if (json_object_set(config->root, key, found) != 0)
    return lls_fail(err, -ENOMEM, "%s: out of memory", config->file);
  json_object_del(text, key);
  json_object_del(config->root, "compression_config");
  return 0;
}

/* MLX says how it quantised without naming a method. */
static bool is_mlx(const json_t *object)
{
  return json_object_get(object, "quant_method") == NULL &&
         json_object_get(object, "bits") != NULL &&
         json_object_get(object, "group_size") != NULL;
}

int lls_quantisation_read(const struct lls_json *config, struct lls_quantisation *out,
                          struct lls_error *err)
{
  json_t *object = lls_json_get(config, "quantization_config");
  const char *method;
  *out = (struct lls_quantisation){0};
  if (is_mlx(json_object_get(config->root, "quantization")) || is_mlx(object))
    return lls_fail(err, -ENOTSUP,
                    "%s: these are quantised weights of MLX, which are not supported; "
                    "the GGUF file or another folder of the same model may be",
                    config->file);
  if (object == NULL)
    return 0;
  if (!json_is_object(object))
    return lls_fail(err, -EINVAL, "%s: \"quantization_config\" should be an object",
                    config->file);
  struct lls_json j = lls_json_inside(config, object);
  out->is_quantised = true;
  int rc = lls_json_string_or(&j, "quant_method", "none", &method, err);
  if (rc == 0)
    rc = read_method(&j, method, out, err);
  return rc == 0 ? lls_config_check_quantisation_keys(&j, err) : rc;
}

uint32_t lls_quantisation_bits(const struct lls_quantisation *q)
{
  uint32_t most = 0;
  for (uint32_t i = 0; i < q->n_schemes; i++)
    most = q->scheme[i].bits > most ? q->scheme[i].bits : most;
  return most;
}
