/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes safetensors files: if a file opens, its views lie inside the file. The input
 * is the header's JSON, since a mutation would hardly ever keep its length right; a few
 * zeros follow as data, as many as the first byte says. After a zero byte there may be
 * a config.json, which says how "m" is quantised; then there are eight times as many.
 */
#include "core/model/safetensors.h"
#include "core/device/tensor.h"
#include "t/fuzz/fuzz.h"

#define ROWS    16
#define COLUMNS 64

static void view(struct lls_safetensors *tensors, size_t rows, size_t columns)
{
  struct lls_tensor_view out;
  struct lls_error err = {0};
  volatile unsigned sum = 0;
  if (lls_safetensors_view(tensors, "a", rows, columns, &out, &err) != 0)
    return;
  for (size_t i = 0; i < rows * columns * lls_dtype_bytes(out.dtype); i++)
    sum += ((const unsigned char *)out.data)[i];
  (void)sum; /* only checks that every byte can be read */
}

/* A matrix that is made of several tensors. */
static void read_matrix(struct lls_safetensors *tensors)
{
  struct lls_tensor_view m;
  struct lls_error err = {0};
  float row[COLUMNS];
  if (lls_safetensors_view(tensors, "m.weight", ROWS, COLUMNS, &m, &err) != 0) {
    assert(err.text[0] != '\0');
    return;
  }
  for (size_t i = 0; i < ROWS; i++)
    lls_tensor_read_row(&m, i, row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static uint8_t file[1 << 16];
  struct lls_safetensors *tensors = NULL;
  struct lls_error err = {0};
  if (size < 1 || size + 8 + 8 * 255 > sizeof file)
    return 0;
  const uint8_t *config = memchr(data + 1, '\0', size - 1);
  uint64_t header = config != NULL ? (uint64_t)(config - data) - 1 : size - 1;
  size_t zeros = config != NULL ? 8 * (size_t)data[0] : data[0];
  memset(file, 0, sizeof file);
  memcpy(file, &header, sizeof header);
  memcpy(file + 8, data + 1, header);
  fuzz_file("model.safetensors", file, 8 + header + zeros);
  if (config != NULL)
    fuzz_file("config.json", config + 1, size - 2 - header);
  if (lls_safetensors_open(fuzz_folder(), &tensors, &err) == 0) {
    view(tensors, 1, 4);
    view(tensors, 2, 2);
    view(tensors, 1, 1);
    lls_safetensors_has(tensors, "b");
    read_matrix(tensors);
    lls_safetensors_close(tensors);
  } else {
    assert(err.text[0] != '\0');
  }
  fuzz_forget("model.safetensors");
  if (config != NULL)
    fuzz_forget("config.json");
  return 0;
}
