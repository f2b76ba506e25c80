/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's entry; grows with the command line. */
#include <stdio.h>

int main(void)
{
  puts("llmserve");
  return 0;
}
