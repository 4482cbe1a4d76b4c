// NTLM: MD4 (RFC 1320) of the bytes widened to 16 bits. The key is the outcome of step KEY_STEP, 29 to 44, as in MD5.

#define F(b, c, d) bitselect(d, c, b)
#define G(b, c, d) MAJORITY(b, c, d)
#define H(b, c, d) ((b) ^ (c) ^ (d))
#define K_F 0u
#define K_G 0x5a827999u
#define K_H 0x6ed9eba1u
#define ONE(mix, a, b, c, d, w, turn) a = rotate(a + (w + K_##mix) + mix(b, c, d), (V)(turn));
#if FLIGHT == 2
#define STEP(mix, a, b, c, d, w, turn) \
    ONE(mix, a##_0, b##_0, c##_0, d##_0, w##_0, turn) \
    ONE(mix, a##_1, b##_1, c##_1, d##_1, w##_1, turn)
#define KEYS_OF(a) {{a##_0, a##_1}}
#else
#define STEP(mix, a, b, c, d, w, turn) ONE(mix, a##_0, b##_0, c##_0, d##_0, w##_0, turn)
#define KEYS_OF(a) {{a##_0}}
#endif
#define KEYS(a) KEYS_OF(a)
// The word that step KEY_STEP makes.
#if KEY_STEP % 4 == 0
#define OUTCOME a
#elif KEY_STEP % 4 == 1
#define OUTCOME d
#elif KEY_STEP % 4 == 2
#define OUTCOME c
#else
#define OUTCOME b
#endif
// Where the key is that of this step, or of a later one.
#define LATE(step, mix, a, b, c, d, w, turn) if (KEY_STEP + MANY >= step) { STEP(mix, a, b, c, d, w, turn) }
#define BACK(a, b, c, d, w, turn) a = rotate(a, 32u - turn) - H(b, c, d) - (w + K_H);
#define UNDO(step, a, b, c, d, w, turn) if (KEY_STEP + 4 <= step) { BACK(a, b, c, d, w, turn) }

static inline Keys key_of(PARAMS, Keys *next)
{
    V a_0 = (V)(0x67452301u), b_0 = (V)(0xefcdab89u), c_0 = (V)(0x98badcfeu), d_0 = (V)(0x10325476u);
#if FLIGHT == 2
    V a_1 = a_0, b_1 = b_0, c_1 = c_0, d_1 = d_0;
#endif
    STEP(F, a, b, c, d, w0, 3)
    STEP(F, d, a, b, c, w1, 7)
    STEP(F, c, d, a, b, w2, 11)
    STEP(F, b, c, d, a, w3, 19)
    STEP(F, a, b, c, d, w4, 3)
    STEP(F, d, a, b, c, w5, 7)
    STEP(F, c, d, a, b, w6, 11)
    STEP(F, b, c, d, a, w7, 19)
    STEP(F, a, b, c, d, w8, 3)
    STEP(F, d, a, b, c, w9, 7)
    STEP(F, c, d, a, b, w10, 11)
    STEP(F, b, c, d, a, w11, 19)
    STEP(F, a, b, c, d, w12, 3)
    STEP(F, d, a, b, c, w13, 7)
    STEP(F, c, d, a, b, w14, 11)
    STEP(F, b, c, d, a, w15, 19)
    STEP(G, a, b, c, d, w0, 3)
    STEP(G, d, a, b, c, w4, 5)
    STEP(G, c, d, a, b, w8, 9)
    STEP(G, b, c, d, a, w12, 13)
    STEP(G, a, b, c, d, w1, 3)
    STEP(G, d, a, b, c, w5, 5)
    STEP(G, c, d, a, b, w9, 9)
    STEP(G, b, c, d, a, w13, 13)
    STEP(G, a, b, c, d, w2, 3)
    STEP(G, d, a, b, c, w6, 5)
    STEP(G, c, d, a, b, w10, 9)
    STEP(G, b, c, d, a, w14, 13)
    STEP(G, a, b, c, d, w3, 3)
    LATE(29, G, d, a, b, c, w7, 5)
    LATE(30, G, c, d, a, b, w11, 9)
    LATE(31, G, b, c, d, a, w15, 13)
    LATE(32, H, a, b, c, d, w0, 3)
    LATE(33, H, d, a, b, c, w8, 9)
    LATE(34, H, c, d, a, b, w4, 11)
    LATE(35, H, b, c, d, a, w12, 15)
    LATE(36, H, a, b, c, d, w2, 3)
    LATE(37, H, d, a, b, c, w10, 9)
    LATE(38, H, c, d, a, b, w6, 11)
    LATE(39, H, b, c, d, a, w14, 15)
    LATE(40, H, a, b, c, d, w1, 3)
    LATE(41, H, d, a, b, c, w9, 9)
    LATE(42, H, c, d, a, b, w5, 11)
    LATE(43, H, b, c, d, a, w13, 15)
    LATE(44, H, a, b, c, d, w3, 3)
    LATE(45, H, d, a, b, c, w11, 9)
    NEXT_KEYS(KEYS(d))
    Keys keys = KEYS(OUTCOME);
    return keys;
}

// The key of a candidate with this digest, whose block is `w` but for the words that change.
static inline uint aim(const uint *w, __global const uint *digest)
{
    uint a = digest[0] - 0x67452301u, b = digest[1] - 0xefcdab89u;
    uint c = digest[2] - 0x98badcfeu, d = digest[3] - 0x10325476u;
    UNDO(47, b, c, d, a, w[15], 15u)
    UNDO(46, c, d, a, b, w[7], 11u)
    UNDO(45, d, a, b, c, w[11], 9u)
    UNDO(44, a, b, c, d, w[3], 3u)
    UNDO(43, b, c, d, a, w[13], 15u)
    UNDO(42, c, d, a, b, w[5], 11u)
    UNDO(41, d, a, b, c, w[9], 9u)
    UNDO(40, a, b, c, d, w[1], 3u)
    UNDO(39, b, c, d, a, w[14], 15u)
    UNDO(38, c, d, a, b, w[6], 11u)
    UNDO(37, d, a, b, c, w[10], 9u)
    UNDO(36, a, b, c, d, w[2], 3u)
    UNDO(35, b, c, d, a, w[12], 15u)
    UNDO(34, c, d, a, b, w[4], 11u)
    UNDO(33, d, a, b, c, w[8], 9u)
    return OUTCOME;
}
