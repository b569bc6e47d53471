/* The threads of a group on a processor: one stack each, switched at barriers and by warps.

   Kernels are the LLVM IR that is compiled for GPUs, compiled for this machine; its intrinsics are
   the functions below.  A copy to shared memory that is asynchronous happens when it is waited for,
   and not before, so that a wait that is missing is a wrong result. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES (128 << 10)
#define MOST 1024
#define COPIES 512

enum { READY, BARRIER, WARP, FOUR_WARPS, DONE };
enum { BUTTERFLY, DOWN, INDEX, MMA_BF16, MMA_F16, MMA_TF32, MMA_S8, LDMATRIX };

typedef struct { void *to; const void *from; uint32_t size; int group; } Copy;
typedef struct {
  void *sp;
  int state, kind;
  uint32_t in[10], out[4], lane, mask;
  const char *row, *a, *b;  /* of ldmatrix; of a product of four warps, whose sums are at `sums` */
  float *sums;
  int columns, a_across, b_across, pending, starts;
  Copy copies[COPIES];
  int copy_count, committed;
} Fiber;

static Fiber fibers[MOST];
static char *stacks;
static void *main_sp;
static int current, threads, group_number;
static void (*entry)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
static uint64_t arguments[8];
char sim_error[256];
int64_t sim_barriers, sim_conflicts;

__attribute__((naked, noinline)) static void swap(void **from, void *to) {
  __asm__("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
          "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
          "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}

static void yield(int state) {
  fibers[current].state = state;
  swap(&fibers[current].sp, main_sp);
}

static void body(void) {
  uint64_t *a = arguments;
  entry(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
  yield(DONE);
  abort();
}

static void finish(Fiber *f, int below) {
  for (int i = 0; i < f->copy_count; i++) {
    Copy *c = &f->copies[i];
    if (c->group >= 0 && c->group < below) {
      memcpy(c->to, c->from, c->size);
      c->group = -2;
    }
  }
  int kept = 0;
  for (int i = 0; i < f->copy_count; i++)
    if (f->copies[i].group != -2) f->copies[kept++] = f->copies[i];
  f->copy_count = kept;
}

/* Matrices: fragments as PTX ISA lays them out, warp-level matrix fragments. */

static float bf16(uint32_t x) { x <<= 16; float f; memcpy(&f, &x, 4); return f; }
static float f16(uint32_t x) { _Float16 h; uint16_t s = (uint16_t)x; memcpy(&h, &s, 2); return (float)h; }
static float tf32(uint32_t x) { x &= 0xFFFFE000u; float f; memcpy(&f, &x, 4); return f; }

static void multiply(Fiber *w, int kind) {
  int depth = kind == MMA_S8 ? 32 : kind == MMA_TF32 ? 8 : 16;
  static double a[16][32], b[32][8];
  for (int l = 0; l < 32; l++) {
    int g = l / 4, t = l % 4;
    uint32_t *in = w[l].in;
    for (int r = 0; r < (kind == MMA_TF32 ? 4 : 4); r++)
      for (int e = 0; e < (kind == MMA_TF32 ? 1 : kind == MMA_S8 ? 4 : 2); e++) {
        int row = g + 8 * (r % 2);
        if (kind == MMA_TF32) a[row][t + 4 * (r / 2)] = tf32(in[r]);
        else if (kind == MMA_S8) a[row][4 * t + e + 16 * (r / 2)] = (int8_t)(in[r] >> (8 * e));
        else {
          uint32_t x = (in[r] >> (16 * e)) & 0xFFFF;
          a[row][2 * t + e + 8 * (r / 2)] = kind == MMA_BF16 ? bf16(x) : f16(x);
        }
      }
    for (int r = 0; r < 2; r++)
      for (int e = 0; e < (kind == MMA_TF32 ? 1 : kind == MMA_S8 ? 4 : 2); e++) {
        if (kind == MMA_TF32) b[t + 4 * r][g] = tf32(in[4 + r]);
        else if (kind == MMA_S8) b[4 * t + e + 16 * r][g] = (int8_t)(in[4 + r] >> (8 * e));
        else {
          uint32_t x = (in[4 + r] >> (16 * e)) & 0xFFFF;
          b[2 * t + e + 8 * r][g] = kind == MMA_BF16 ? bf16(x) : f16(x);
        }
      }
  }
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++) {
      int row = l / 4 + 8 * (i / 2), column = 2 * (l % 4) + i % 2;
      double total = 0;
      for (int k = 0; k < depth; k++) total += a[row][k] * b[k][column];
      if (kind == MMA_S8) w[l].out[i] = (uint32_t)((int32_t)w[l].in[6 + i] + (int32_t)total);
      else {
        float c;
        memcpy(&c, &w[l].in[6 + i], 4);
        c = (float)(c + total);
        memcpy(&w[l].out[i], &c, 4);
      }
    }
}

static void exchange(Fiber *w, int count) {
  int kind = w[0].kind;
  for (int l = 1; l < count; l++)
    if (w[l].kind != kind) snprintf(sim_error, 256, "threads of a warp run different instructions");
  if (kind >= MMA_BF16 && kind <= MMA_S8) { multiply(w, kind); return; }
  if (kind == LDMATRIX) {
    /* The phases of ldmatrix: 8 rows of 16 bytes each; banks are 4 bytes wide, 32 of them. */
    int matrices = w[0].in[0], transposed = w[0].in[1];
    for (int m = 0; m < matrices; m++) {
      uint32_t used[8];
      for (int r = 0; r < 8; r++) {
        const char *row = w[8 * m + r].row;
        if ((uintptr_t)row % 16) snprintf(sim_error, 256, "a row of a matrix is not aligned");
        used[r] = (uint32_t)((uintptr_t)row / 16 % 8);
        for (int s = 0; s < r; s++)
          if (used[s] == used[r] && row != w[8 * m + s].row) sim_conflicts++;
      }
    }
    for (int l = 0; l < 32; l++)
      for (int m = 0; m < matrices; m++) {
        char *to = (char *)&w[l].out[m];
        if (!transposed) memcpy(to, w[8 * m + l / 4].row + 4 * (l % 4), 4);
        else for (int e = 0; e < 2; e++) memcpy(to + 2 * e, w[8 * m + 2 * (l % 4) + e].row + 2 * (l / 4), 2);
      }
    return;
  }
  for (int l = 0; l < count; l++) {
    int from = kind == BUTTERFLY ? l ^ (int)w[l].lane : kind == DOWN ? l + (int)w[l].lane : (int)w[l].lane % 32;
    w[l].out[0] = w[from < count ? from : l].in[0];
  }
}

/* An element of a tile in rows of 128 bytes, whose places of 16 bytes are swizzled by address. */
static float swizzled(const char *tile, int across, int along, int is_across, int kind) {
  int size = kind == MMA_TF32 ? 4 : kind == MMA_S8 ? 1 : 2, row = 128 / size;
  int element = is_across ? (across / row * row + along) * row + across % row : across * row + along;
  uintptr_t at = (uintptr_t)tile + (uintptr_t)size * (uintptr_t)element;
  at ^= (at >> 7 & 7) << 4;
  if (kind == MMA_TF32) {
    uint32_t word;
    memcpy(&word, (const void *)at, 4);
    return tf32(word);
  }
  if (kind == MMA_S8) return *(const int8_t *)at;
  uint16_t x;
  memcpy(&x, (const void *)at, 2);
  return kind == MMA_BF16 ? bf16(x) : f16(x);
}

typedef struct { const char *a, *b; int columns, a_across, b_across, kind, is_open; } Product;
static Product products[MOST / 128];  /* that four warps have started, and not waited for */

static void multiply_group(Fiber *w, const Product *p) {
  int columns = p->columns, depth = p->kind == MMA_TF32 ? 32 : p->kind == MMA_S8 ? 128 : 64;
  static float a[64][128], b[128][256];
  for (int k = 0; k < depth; k++) {
    for (int i = 0; i < 64; i++) a[i][k] = swizzled(p->a, i, k, p->a_across, p->kind);
    for (int j = 0; j < columns; j++) b[k][j] = swizzled(p->b, j, k, p->b_across, p->kind);
  }
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < columns / 2; i++) {
      int row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2);
      int column = 8 * (i / 4) + 2 * (t % 4) + i % 2;
      double total = 0;
      for (int k = 0; k < depth; k++) total += (double)a[row][k] * b[k][column];
      if (p->kind == MMA_S8) ((int32_t *)w[t].sums)[i] += (int32_t)total;
      else w[t].sums[i] += (float)total;
    }
}

/* Four warps come to a product, or wait for one.  One that may be pending reads as late as it may. */
static void meet_group(Fiber *w, Product *open) {
  if ((uintptr_t)w[0].a % 1024 || (uintptr_t)w[0].b % 1024)
    snprintf(sim_error, 256, "a matrix of four warps is not aligned");
  for (int t = 1; t < 128; t++)
    if (w[t].a != w[0].a || w[t].b != w[0].b || w[t].starts != w[0].starts)
      snprintf(sim_error, 256, "threads of four warps name different matrices");
  if (open->is_open) multiply_group(w, open);
  open->is_open = 0;
  if (!w[0].starts) return;
  *open = (Product){w[0].a, w[0].b, w[0].columns, w[0].a_across, w[0].b_across, w[0].kind, 1};
  if (w[0].pending) return;
  multiply_group(w, open);
  open->is_open = 0;
}

static int run_group(int reverse) {
  memset(products, 0, sizeof products);
  for (int t = 0; t < threads; t++) {
    Fiber *f = &fibers[t];
    uint64_t *top = (uint64_t *)(stacks + (size_t)(t + 1) * STACK_BYTES);
    *--top = 0;             /* keeps the stack aligned as after a call */
    *--top = (uint64_t)body;
    for (int i = 0; i < 6; i++) *--top = 0;
    f->sp = top;
    f->state = READY;
    f->copy_count = f->committed = 0;
  }
  for (;;) {
    int done = 0, waiting = 0, moved = 0;
    for (int i = 0; i < threads; i++) {
      int t = reverse ? threads - 1 - i : i;
      if (fibers[t].state == READY) {
        current = t;
        swap(&main_sp, fibers[t].sp);
        moved = 1;
      }
    }
    for (int t = 0; t < threads; t++) {
      done += fibers[t].state == DONE;
      waiting += fibers[t].state == BARRIER;
    }
    if (sim_error[0]) return 1;
    if (done == threads) return 0;
    if (waiting == threads) {
      for (int t = 0; t < threads; t++) fibers[t].state = READY;
      sim_barriers++;
      continue;
    }
    if (waiting && waiting + done == threads) {
      snprintf(sim_error, 256, "%d of %d threads of group %d come to a barrier", waiting, threads, group_number);
      return 1;
    }
    for (int w = 0; w < threads; w += 32) {
      int count = threads - w < 32 ? threads - w : 32, meet = 0;
      for (int l = 0; l < count; l++) meet += fibers[w + l].state == WARP;
      if (meet == count) {
        exchange(fibers + w, count);
        for (int l = 0; l < count; l++) fibers[w + l].state = READY;
        moved = 1;
      }
    }
    for (int w = 0; w + 128 <= threads; w += 128) {
      int meet = 0;
      for (int t = 0; t < 128; t++) meet += fibers[w + t].state == FOUR_WARPS;
      if (meet == 128) {
        meet_group(fibers + w, products + w / 128);
        for (int t = 0; t < 128; t++) fibers[w + t].state = READY;
        moved = 1;
      }
    }
    if (!moved) {
      snprintf(sim_error, 256, "threads of group %d wait for each other", group_number);
      return 1;
    }
  }
}

int sim_launch(void *kernel, const uint64_t *values, int groups, int count, int reverse) {
  if (!stacks)
    stacks = mmap(0, (size_t)MOST * STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  entry = kernel;
  memcpy(arguments, values, sizeof arguments);
  threads = count;
  sim_error[0] = 0;
  for (int i = 0; i < groups; i++) {
    group_number = reverse ? groups - 1 - i : i;
    if (run_group(reverse)) return 1;
  }
  return 0;
}

/* The intrinsics. */

uint32_t sim_tid(void) { return (uint32_t)current; }
uint32_t sim_ctaid(void) { return (uint32_t)group_number; }
void sim_barrier(uint32_t number) { (void)number; yield(BARRIER); }

static uint32_t shuffle(int kind, uint32_t x, uint32_t lane) {
  Fiber *f = &fibers[current];
  f->kind = kind, f->in[0] = x, f->lane = lane;
  yield(WARP);
  return fibers[current].out[0];
}
uint32_t sim_bfly(uint32_t mask, uint32_t x, uint32_t lane, uint32_t clamp) { (void)mask; (void)clamp; return shuffle(BUTTERFLY, x, lane); }
uint32_t sim_down(uint32_t mask, uint32_t x, uint32_t lane, uint32_t clamp) { (void)mask; (void)clamp; return shuffle(DOWN, x, lane); }
uint32_t sim_idx(uint32_t mask, uint32_t x, uint32_t lane, uint32_t clamp) { (void)mask; (void)clamp; return shuffle(INDEX, x, lane); }

typedef uint32_t Four __attribute__((vector_size(16)));

static Four mma(int kind, const uint32_t *in) {
  Fiber *f = &fibers[current];
  f->kind = kind;
  memcpy(f->in, in, 40);
  yield(WARP);
  Four out;
  memcpy(&out, fibers[current].out, 16);
  return out;
}
#define FLOATS(kind, name)                                                                        \
  Four name(uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1,         \
            float c0, float c1, float c2, float c3) {                                             \
    uint32_t in[10] = {a0, a1, a2, a3, b0, b1};                                                   \
    float c[4] = {c0, c1, c2, c3};                                                                \
    memcpy(in + 6, c, 16);                                                                        \
    return mma(kind, in);                                                                         \
  }
FLOATS(MMA_BF16, sim_mma_bf16)
FLOATS(MMA_F16, sim_mma_f16)
FLOATS(MMA_TF32, sim_mma_tf32)
Four sim_mma_s8(uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1,
                uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  uint32_t in[10] = {a0, a1, a2, a3, b0, b1, c0, c1, c2, c3};
  return mma(MMA_S8, in);
}
void sim_group_mma(float *sums, const char *a, const char *b, int columns, int a_across, int b_across, int kind, int pending) {
  Fiber *f = &fibers[current];
  f->kind = (int[]){MMA_F16, MMA_BF16, MMA_TF32, MMA_S8}[kind], f->sums = sums, f->a = a, f->b = b;
  f->columns = columns, f->a_across = a_across, f->b_across = b_across;
  f->pending = pending, f->starts = 1;
  yield(FOUR_WARPS);
}
void sim_group_wait(float *sums) {
  Fiber *f = &fibers[current];
  f->sums = sums, f->a = f->b = 0, f->starts = 0;
  yield(FOUR_WARPS);
}

typedef uint32_t Two __attribute__((vector_size(8)));

static Four matrices(const char *row, uint32_t count, uint32_t transposed) {
  Fiber *f = &fibers[current];
  f->kind = LDMATRIX, f->row = row, f->in[0] = count, f->in[1] = transposed;
  yield(WARP);
  Four out;
  memcpy(&out, fibers[current].out, 16);
  return out;
}
static Two two(Four x) { return (Two){x[0], x[1]}; }
Four sim_matrices4(const char *row) { return matrices(row, 4, 0); }
Four sim_matrices4t(const char *row) { return matrices(row, 4, 1); }
Two sim_matrices2(const char *row) { return two(matrices(row, 2, 0)); }
Two sim_matrices2t(const char *row) { return two(matrices(row, 2, 1)); }

static void copy(void *to, const void *from, uint32_t size) {
  Fiber *f = &fibers[current];
  if (((uintptr_t)to | (uintptr_t)from) % size) { snprintf(sim_error, 256, "a copy of %u bytes is not aligned", size); return; }
  memset(to, 113, size);  /* until it is waited for, nothing is there */
  if (f->copy_count == COPIES) { snprintf(sim_error, 256, "too many copies in flight"); return; }
  f->copies[f->copy_count++] = (Copy){to, from, size, -1};
}
void sim_copy4(void *to, const void *from) { copy(to, from, 4); }
void sim_copy8(void *to, const void *from) { copy(to, from, 8); }
void sim_copy16(void *to, const void *from) { copy(to, from, 16); }
void sim_commit(void) {
  Fiber *f = &fibers[current];
  for (int i = 0; i < f->copy_count; i++)
    if (f->copies[i].group == -1) f->copies[i].group = f->committed;
  f->committed++;
}
void sim_wait(uint32_t newest) {
  Fiber *f = &fibers[current];
  finish(f, f->committed - (int)newest);
}

uint32_t *sim_condition;  /* of each handle, as the graph that runs has them */
void cudaGraphSetConditional(uint64_t handle, uint32_t value) { sim_condition[handle] = value; }
