// What comes before the algorithm's file: vectors of candidates, FLIGHT of them at a time. The steps of an algorithm each wait
// for the one before; those of two vectors fill the time.

#define CONCAT(a, b) a##b
#define VECTOR(name, width) CONCAT(name, width)
#if WIDTH == 1
#define VLOAD(from) (*(from))
#define SAME int
#define ANY(v) (v)
#else
#define VLOAD(from) VECTOR(vload, WIDTH)(0, from)
#define SAME VECTOR(int, WIDTH)
// Halves are joined until two lanes are left: the driver's own `any` looks at one lane after another.
#define ANY2(v) ((v).x | (v).y)
#define ANY4(v) ANY2((v).lo | (v).hi)
#define ANY8(v) ANY4((v).lo | (v).hi)
#define ANY16(v) ANY8((v).lo | (v).hi)
#define ANY(v) VECTOR(ANY, WIDTH)(v)
#endif

// In each bit what two of three say or more. LLVM does not find the one instruction that AVX-512 has for it.
#if defined(__AVX512F__) && WIDTH == 16
typedef int Lanes __attribute__((vector_size(64)));
#define LANES(v) __builtin_astype(v, Lanes)
#define MAJORITY(x, y, z) \
    __builtin_astype(__builtin_ia32_pternlogd512_mask(LANES(x), LANES(y), LANES(z), 0xe8, (ushort)-1), V)
#else
#define MAJORITY(x, y, z) bitselect(x, z, (x) ^ (y))
#endif

typedef struct {
    V of[FLIGHT];
} Keys;

// Of many targets some has the key of one in a few thousand candidates. So the outcome of the step behind is looked up too: no
// step changes the key by then.
#define MANY (TARGETS == 0)
#if MANY
#define NEXT_KEYS(...) Keys nexts = __VA_ARGS__; *next = nexts;
#else
#define NEXT_KEYS(...)
#endif

