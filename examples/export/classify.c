/* Reads images of 28 by 28 floats from a file, and prints the digit that each of them shows.

       cc -O2 -ffp-contract=off -Ibuild examples/export/classify.c build/digits.c -o classify
       ./classify images.bin
*/
#include <stdalign.h>
#include <stdio.h>

#include "digits.h"

static alignas(64) float image[784];
static alignas(64) float logits[10];
static alignas(DIGITS_ARENA_ALIGNMENT) unsigned char arena[DIGITS_ARENA_BYTES + 1];

int main(int count, char **arguments) {
  FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
  if (!file) {
    fprintf(stderr, "usage: classify FILE\n");
    return 2;
  }
  digits_args args = DIGITS_ARGS;
  args.image = image;
  args.out = logits;
  while (fread(image, sizeof image, 1, file) == 1) {
    if (digits(&args, arena) != DIGITS_OK) return 1;
    int best = 0;
    for (int i = 1; i < 10; i++)
      if (logits[i] > logits[best]) best = i;
    printf("%d", best);
  }
  printf("\n");
  return fclose(file) ? 1 : 0;
}
