/* Train a network on MNIST without Python: see examples/mnist_in_c.py, which writes the four functions.

     cc -O2 -ffp-contract=off -Ibuild examples/export/train.c build/mlp_*.c -o train
     ./train examples/data/mnist 1            one epoch

   With -DMODEL=cnn and build/cnn_*.c it trains the other network.  After the last epoch the
   parameters are written to the file that the third argument names, if there is one. */

#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef MODEL
#define MODEL mlp
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define QUOTE_(a) #a
#define QUOTE(a) QUOTE_(a)
#define OF_MODEL(rest) JOIN(MODEL, rest)

#define mlp_UPPER(rest) MLP##rest
#define cnn_UPPER(rest) CNN##rest
#define UPPER(rest) JOIN(MODEL, _UPPER)(rest)

#include QUOTE(OF_MODEL(_begin.h))
#include QUOTE(OF_MODEL(_shuffle.h))
#include QUOTE(OF_MODEL(_step.h))
#include QUOTE(OF_MODEL(_test.h))

enum { PIXELS = 28 * 28, IMAGES = 60000, TESTS = 10000, BATCH = 128, TESTED = 1000, MOST = 64 };

/* All that is learned or remembered, in the order in which `begin` gives it. */
static void *values[MOST];
static size_t sizes[MOST];
static int count = 0;

static void *allocate(size_t bytes) {
  void *memory = NULL;
  if (posix_memalign(&memory, 64, bytes ? bytes : 64)) {
    fprintf(stderr, "no memory is left\n");
    exit(1);
  }
  return memory;
}

static void check(int error, const char *what) {
  if (error) {
    fprintf(stderr, "%s: error %d\n", what, error);
    exit(1);
  }
}

/* A file of the MNIST data: its head says how many there are, and of what size. */
static uint8_t *read_idx(const char *folder, const char *name, size_t head, size_t bytes) {
  char command[4096];
  snprintf(command, sizeof command, "gzip -dc '%s/%s'", folder, name);
  FILE *file = popen(command, "r");
  uint8_t *data = allocate(head + bytes);
  if (!file || fread(data, 1, head + bytes, file) != head + bytes) {
    fprintf(stderr, "%s/%s cannot be read\n", folder, name);
    exit(1);
  }
  pclose(file);
  return data + head;
}

/* The pointers of a struct come after 16 bytes, one after the other. */
static void **pointers(void *args) { return (void **)((char *)args + 16); }

/* Of this process's own work, whatever else the machine does. */
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "examples/data/mnist";
  const int epochs = argc > 2 ? atoi(argv[2]) : 1;
  const uint8_t *pixels = read_idx(folder, "train-images-idx3-ubyte.gz", 16, IMAGES * PIXELS);
  const uint8_t *digits = read_idx(folder, "train-labels-idx1-ubyte.gz", 8, IMAGES);
  const uint8_t *test_pixels = read_idx(folder, "t10k-images-idx3-ubyte.gz", 16, TESTS * PIXELS);
  const uint8_t *test_digits = read_idx(folder, "t10k-labels-idx1-ubyte.gz", 8, TESTS);

  /* First values. */
  int32_t seed = 0;
  OF_MODEL(_begin_args) begin = UPPER(_BEGIN_ARGS);
  begin.seed = &seed;
#define ALLOCATE(type, name, elements)         \
  sizes[count] = (elements) * sizeof(type);    \
  values[count] = allocate(sizes[count]);      \
  begin.name = (type *)values[count++];
  UPPER(_BEGIN_OUTPUTS)(ALLOCATE)
  check(OF_MODEL(_begin)(&begin, allocate(UPPER(_BEGIN_ARENA_BYTES))), "begin");

  /* A step reads the values and a batch, and writes the new values over the old ones. */
  uint8_t *batch_pixels = allocate(BATCH * PIXELS), *batch_digits = allocate(BATCH);
  float loss = 0;
  OF_MODEL(_step_args) step = UPPER(_STEP_ARGS);
  memcpy(pointers(&step), values, (size_t)count * sizeof(void *));
  step.images_pixels = batch_pixels;
  step.images_digits = batch_digits;
  memcpy(pointers(&step) + count + 2, values, (size_t)count * sizeof(void *));
  pointers(&step)[count + 2 + count] = &loss;
  void *arena = allocate(UPPER(_STEP_ARENA_BYTES));

  /* A test counts the digits that are read right; it needs the first values only. */
  int32_t right = 0;
  OF_MODEL(_test_args) test = UPPER(_TEST_ARGS);
  int parameters = -2;
#define COUNT(type, name, elements) ++parameters;
  UPPER(_TEST_INPUTS)(COUNT)
  memcpy(pointers(&test), values, (size_t)parameters * sizeof(void *));
  test.out = &right;
  void *test_arena = allocate(UPPER(_TEST_ARENA_BYTES));

  OF_MODEL(_shuffle_args) shuffle = UPPER(_SHUFFLE_ARGS);
  int32_t epoch = 0, *order = allocate(IMAGES * sizeof(int32_t));
  shuffle.seed = &seed;
  shuffle.epoch = &epoch;
  shuffle.out = order;
  void *shuffle_arena = allocate(UPPER(_SHUFFLE_ARENA_BYTES));

  double shortest = 1e9;
  const int steps = IMAGES / BATCH;
  for (; epoch < epochs; ++epoch) {
    check(OF_MODEL(_shuffle)(&shuffle, shuffle_arena), "shuffle");
    for (int i = 0; i < steps; ++i) {
      for (int j = 0; j < BATCH; ++j) {
        const int32_t at = order[i * BATCH + j];
        memcpy(batch_pixels + j * PIXELS, pixels + (size_t)at * PIXELS, PIXELS);
        batch_digits[j] = digits[at];
      }
      const double start = seconds();
      check(OF_MODEL(_step)(&step, arena), "step");
      const double spent = seconds() - start;
      if (spent < shortest) shortest = spent;
    }
    int total = 0;
    for (int i = 0; i < TESTS; i += TESTED) {
      test.images_pixels = test_pixels + (size_t)i * PIXELS;
      test.images_digits = test_digits + i;
      check(OF_MODEL(_test)(&test, test_arena), "test");
      total += right;
    }
    printf("epoch %d: loss %.6f, test accuracy %.2f%%, shortest step %.3f ms\n", (int)epoch + 1,
           loss, 100.0 * total / TESTS, 1e3 * shortest);
  }
  if (argc > 3) {
    FILE *file = fopen(argv[3], "wb");
    for (int i = 0; file && i < count; ++i) fwrite(values[i], 1, sizes[i], file);
    if (!file || fclose(file)) return 1;
  }
  return 0;
}
