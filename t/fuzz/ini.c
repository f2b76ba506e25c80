/* SPDX-License-Identifier: Apache-2.0 */
/* llmserve.ini: read, checked and bound, or refused with at least one sentence. */
#include "core/config/config.h"
#include "t/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct lls_config config;
  struct lls_config_errors errors = {0};
  if (lls_config_load(fuzz_file("llmserve.ini", data, size), &config, &errors) == 0)
    lls_config_free(&config);
  else
    assert(errors.n > 0 && errors.list[0].error.text[0] != '\0');
  lls_config_errors_free(&errors);
  fuzz_forget("llmserve.ini");
  return 0;
}
