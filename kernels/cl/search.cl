// What the searches share: which candidates a work item has, and what becomes of a key that is looked for. The algorithm's
// file comes before it, and before that the lines that `starfarm-kernels` writes for one length of candidates:
//
//   V, WIDTH            a vector of that many candidates, 1, 2, 4, 8 or 16
//   T0 .. T15           V where a word of the block changes from one candidate of a run to the next, else uint
//   PARAMS, ARGS        all of these words, as parameters w0 .. w15 and as arguments
//   LOAD(at)            adds the tail's combinations from `at` on to those that change
//   BLOCK               the block with padding and length field, and nothing else
//   PREFIX              positions before the tail
//   STRIDE, BIG_ENDIAN  how a position's byte lies in the block
//   KEY_STEP            the step whose outcome is the key
//   TARGETS             how many are compared one by one; 0: a bitmap is asked
//
// A run is a turn of the tail; a work item has a piece of one. All runs of a launch follow one another.

#define CONCAT(a, b) a##b
#define VECTOR(name, width) CONCAT(name, width)
#if WIDTH == 1
#define VLOAD(from) (*(from))
#define ANY(v) (v)
#else
#define VLOAD(from) VECTOR(vload, WIDTH)(0, from)
#define ANY(v) any(v)
#endif

static void hit(volatile __global uint *hits, uint hits_max, uint run, uint at)
{
    uint place = atomic_inc(hits);
    if (place < hits_max) {
        hits[2 + 2 * place] = run;
        hits[3 + 2 * place] = at;
    }
}

#if TARGETS == 0
// Some target has this key: its bit is set, and it is among the keys with the same leading bits.
static int has_key(uint key, __global const uint *keys, __global const uint *starts, uint starts_shift)
{
    uint leading = key >> starts_shift;
    for (uint at = starts[leading]; at < starts[leading + 1]; at++) {
        if (keys[at] == key) {
            return 1;
        }
    }
    return 0;
}
#endif

__kernel void search(
    // Work items; combinations of the tail, of a piece of it, and how many pieces it has.
    const uint items, const uint size, const uint piece, const uint pieces,
    // For each position of the prefix: symbols, the first run's digit; then 256 bytes of alphabet for each.
    __global const uint *prefix, __global const uchar *alphabets,
    // The tail's words, `stride` entries each.
    __global const uint *tables, const uint stride,
    // Eight words of each digest, or with TARGETS == 0: sorted keys, where those with the same leading bits begin, bitmap.
    __global const uint *targets, __global const uint *starts, const uint starts_shift,
    __global const uint *bitmap, const uint bitmap_shift,
    // How many, unused, then run and combination of each.
    volatile __global uint *hits, const uint hits_max)
{
    uint item = get_global_id(0);
    if (item >= items) {
        return;
    }
    uint run = item / pieces;
    uint from = (item % pieces) * piece;
    uint to = min(from + piece, size);

    uint w[16] = BLOCK;
    uint carry = run;
#pragma unroll
    for (int position = PREFIX - 1; position >= 0; position--) {
        uint symbols = prefix[2 * position];
        uint turned = prefix[2 * position + 1] + carry;
        uint symbol = alphabets[256 * position + turned % symbols];
        carry = turned / symbols;
        uint byte = position * STRIDE;
        w[byte / 4] |= symbol << (8 * (BIG_ENDIAN ? 3 - byte % 4 : byte % 4));
    }

#if TARGETS > 0
    uint aims[TARGETS];
#pragma unroll
    for (int target = 0; target < TARGETS; target++) {
        aims[target] = aim(w, targets + 8 * target);
    }
#endif

    for (uint at = from; at < to; at += WIDTH) {
        T0 w0 = w[0];
        T1 w1 = w[1];
        T2 w2 = w[2];
        T3 w3 = w[3];
        T4 w4 = w[4];
        T5 w5 = w[5];
        T6 w6 = w[6];
        T7 w7 = w[7];
        T8 w8 = w[8];
        T9 w9 = w[9];
        T10 w10 = w[10];
        T11 w11 = w[11];
        T12 w12 = w[12];
        T13 w13 = w[13];
        T14 w14 = w[14];
        T15 w15 = w[15];
        LOAD(at)
        V key = key_of(ARGS);
        union {
            V v;
            uint lane[WIDTH];
        } keys;
#if TARGETS > 0
        int some = 0;
#pragma unroll
        for (int target = 0; target < TARGETS; target++) {
            some |= ANY(key == (V)(aims[target]));
        }
        if (some) {
            keys.v = key;
            for (uint lane = 0; lane < WIDTH; lane++) {
                int is_hit = 0;
                for (int target = 0; target < TARGETS; target++) {
                    is_hit |= keys.lane[lane] == aims[target];
                }
                if (is_hit && at + lane < to) {
                    hit(hits, hits_max, run, at + lane);
                }
            }
        }
#else
        keys.v = key;
        for (uint lane = 0; lane < WIDTH; lane++) {
            uint bit = keys.lane[lane] >> bitmap_shift;
            if ((bitmap[bit >> 5] >> (bit & 31) & 1) && at + lane < to
                && has_key(keys.lane[lane], targets, starts, starts_shift)) {
                hit(hits, hits_max, run, at + lane);
            }
        }
#endif
    }
}
