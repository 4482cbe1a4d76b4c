// What the searches share: which candidates a work item has, and what becomes of a key that is looked for. The algorithm's
// file comes before it, and before that the lines that `starfarm-kernels` writes for one length of candidates:
//
//   V, WIDTH            a vector of that many candidates, 1, 2, 4, 8 or 16
//   FLIGHT              how many vectors are worked on at a time, 1 or 2: numbers 0 and 1
//   WORDS(at)           the block of each, w0_0, w0_1 .. w15_1, with the tail's combinations from `at` on: V where a word
//                       changes from one candidate of a run to the next, else uint
//   PARAMS, ARGS        all of these words, as parameters and as arguments
//   BLOCK               the block with padding and length field, and nothing else
//   HEAD, TAIL          positions before the tail, and its own
//   OUTSIDE             positions before and behind the tail
//   STRIDE, BIG_ENDIAN  how a position's byte lies in the block
//   KEY_STEP            the step whose outcome is the key, with many targets the last but three
//   TARGETS             how many are compared one by one; 0: a sieve and a bitmap are asked
//
// A run is a turn of the tail; a work item has a piece of one. All runs of a launch follow one another.

static void hit(volatile __global uint *hits, uint hits_max, uint run, uint at)
{
    uint place = atomic_inc(hits);
    if (place < hits_max) {
        hits[2 + 2 * place] = run;
        hits[3 + 2 * place] = at;
    }
}

#if MANY
#define IN(bits, at) ((bits)[(at) >> 5] >> ((at) & 31) & 1)
// Keys that are computed before any is looked up: tables are padded for 128.
#define AHEAD 4
#define KEYS_AHEAD (AHEAD * FLIGHT * WIDTH)

// What many targets are looked up in.
typedef struct {
    // Sorted keys, each with the outcome of the step behind, and where those with the same leading bits begin.
    __global const uint *keys, *starts;
    uint starts_shift;
    // A bit for each value of a key's leading bits.
    __global const uint *bitmap;
    uint bitmap_shift;
} Targets;

// Some target has this key, which has passed the sieve, and this outcome of the step behind.
static int has_key(uint key, uint next, const Targets *targets)
{
    uint bit = key >> targets->bitmap_shift;
    if (!IN(targets->bitmap, bit)) {
        return 0;
    }
    uint leading = key >> targets->starts_shift;
    for (uint at = targets->starts[leading]; at < targets->starts[leading + 1]; at++) {
        if (targets->keys[2 * at] == key && targets->keys[2 * at + 1] == next) {
            return 1;
        }
    }
    return 0;
}
#endif

__kernel void search(
    // Work items; combinations of the tail, of a piece of it, and how many pieces it has.
    const uint items, const uint size, const uint piece, const uint pieces,
    // For each position outside the tail: symbols, the first run's digit; then 256 bytes of alphabet for each position.
    __global const uint *digits, __global const uchar *alphabets,
    // The tail's words, `stride` entries each.
    __global const uint *tables, const uint stride,
    // Eight words of each digest, or with TARGETS == 0: sorted keys, each with what is behind it, where those with the same
    // leading bits begin, bitmap of leading bits, sieve of the last ones.
    __global const uint *targets, __global const uint *starts, const uint starts_shift,
    __global const uint *bitmap, const uint bitmap_shift, __global const uint *sieve, const uint sieve_mask,
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
    for (int place = OUTSIDE - 1; place >= 0; place--) {
        int position = place < HEAD ? place : place + TAIL;
        uint symbols = digits[2 * place];
        uint turned = digits[2 * place + 1] + carry;
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

#if TARGETS > 0
    for (uint at = from; at < to; at += FLIGHT * WIDTH) {
        WORDS(at)
        union {
            Keys all;
            uint lane[FLIGHT * WIDTH];
        } keys;
        keys.all = key_of(ARGS, 0);
        SAME some = 0;
#pragma unroll
        for (int target = 0; target < TARGETS; target++) {
#pragma unroll
            for (int vector = 0; vector < FLIGHT; vector++) {
                some |= keys.all.of[vector] == (V)(aims[target]);
            }
        }
        if (ANY(some)) {
            for (uint lane = 0; lane < FLIGHT * WIDTH; lane++) {
                int is_hit = 0;
                for (int target = 0; target < TARGETS; target++) {
                    is_hit |= keys.lane[lane] == aims[target];
                }
                if (is_hit && at + lane < to) {
                    hit(hits, hits_max, run, at + lane);
                }
            }
        }
    }
#else
    Targets many = {targets, starts, starts_shift, bitmap, bitmap_shift};
#if WIDTH == 1
    for (uint at = from; at < to; at++) {
        WORDS(at)
        Keys next;
        uint key = key_of(ARGS, &next).of[0], bit = key & sieve_mask;
        if (IN(sieve, bit) && has_key(key, next.of[0], &many)) {
            hit(hits, hits_max, run, at);
        }
    }
#else
    // A processor guesses where a branch goes, and a wrong guess costs as much as some candidates, the more if it waits for
    // memory. So the sieve is asked of many keys without a branch, and what passes is looked up then.
    for (uint at = from; at < to; at += KEYS_AHEAD) {
        union {
            Keys all[AHEAD];
            uint lane[KEYS_AHEAD];
        } keys, next;
        for (uint ahead = 0; ahead < AHEAD; ahead++) {
            WORDS(at + ahead * FLIGHT * WIDTH)
            keys.all[ahead] = key_of(ARGS, &next.all[ahead]);
        }
        uint passed[KEYS_AHEAD + 1], count = 0;
#pragma unroll 8
        for (uint lane = 0; lane < KEYS_AHEAD; lane++) {
            uint bit = keys.lane[lane] & sieve_mask;
            passed[count] = lane;
            count += IN(sieve, bit);
        }
        for (uint place = 0; place < count; place++) {
            uint lane = passed[place];
            if (has_key(keys.lane[lane], next.lane[lane], &many) && at + lane < to) {
                hit(hits, hits_max, run, at + lane);
            }
        }
    }
#endif
#endif
}
