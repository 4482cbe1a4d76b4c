// MD5 (RFC 1321). The key is the outcome of step KEY_STEP, 45 to 60: from three steps behind it on no step uses a word that
// changes in a run, so that all of these are taken back from the digest, which leaves the outcomes of the four before.

#define F(b, c, d) bitselect(d, c, b)
#define G(b, c, d) bitselect(c, b, d)
#define H(b, c, d) ((b) ^ (c) ^ (d))
#define I(b, c, d) ((c) ^ ((b) | ~(d)))
#define ONE(mix, a, b, c, d, w, turn, k) a = rotate(a + (w + k) + mix(b, c, d), (V)(turn)) + b;
#if FLIGHT == 2
#define STEP(mix, a, b, c, d, w, turn, k) \
    ONE(mix, a##_0, b##_0, c##_0, d##_0, w##_0, turn, k) \
    ONE(mix, a##_1, b##_1, c##_1, d##_1, w##_1, turn, k)
#define KEYS_OF(a) {{a##_0, a##_1}}
#else
#define STEP(mix, a, b, c, d, w, turn, k) ONE(mix, a##_0, b##_0, c##_0, d##_0, w##_0, turn, k)
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
#define LATE(step, mix, a, b, c, d, w, turn, k) if (KEY_STEP + MANY >= step) { STEP(mix, a, b, c, d, w, turn, k) }
#define BACK(a, b, c, d, w, turn, k) a = rotate(a - b, 32u - turn) - I(b, c, d) - (w + k);
#define UNDO(step, a, b, c, d, w, turn, k) if (KEY_STEP + 4 <= step) { BACK(a, b, c, d, w, turn, k) }

static inline Keys key_of(PARAMS, Keys *next)
{
    V a_0 = (V)(0x67452301u), b_0 = (V)(0xefcdab89u), c_0 = (V)(0x98badcfeu), d_0 = (V)(0x10325476u);
#if FLIGHT == 2
    V a_1 = a_0, b_1 = b_0, c_1 = c_0, d_1 = d_0;
#endif
    STEP(F, a, b, c, d, w0, 7, 0xd76aa478u)
    STEP(F, d, a, b, c, w1, 12, 0xe8c7b756u)
    STEP(F, c, d, a, b, w2, 17, 0x242070dbu)
    STEP(F, b, c, d, a, w3, 22, 0xc1bdceeeu)
    STEP(F, a, b, c, d, w4, 7, 0xf57c0fafu)
    STEP(F, d, a, b, c, w5, 12, 0x4787c62au)
    STEP(F, c, d, a, b, w6, 17, 0xa8304613u)
    STEP(F, b, c, d, a, w7, 22, 0xfd469501u)
    STEP(F, a, b, c, d, w8, 7, 0x698098d8u)
    STEP(F, d, a, b, c, w9, 12, 0x8b44f7afu)
    STEP(F, c, d, a, b, w10, 17, 0xffff5bb1u)
    STEP(F, b, c, d, a, w11, 22, 0x895cd7beu)
    STEP(F, a, b, c, d, w12, 7, 0x6b901122u)
    STEP(F, d, a, b, c, w13, 12, 0xfd987193u)
    STEP(F, c, d, a, b, w14, 17, 0xa679438eu)
    STEP(F, b, c, d, a, w15, 22, 0x49b40821u)
    STEP(G, a, b, c, d, w1, 5, 0xf61e2562u)
    STEP(G, d, a, b, c, w6, 9, 0xc040b340u)
    STEP(G, c, d, a, b, w11, 14, 0x265e5a51u)
    STEP(G, b, c, d, a, w0, 20, 0xe9b6c7aau)
    STEP(G, a, b, c, d, w5, 5, 0xd62f105du)
    STEP(G, d, a, b, c, w10, 9, 0x02441453u)
    STEP(G, c, d, a, b, w15, 14, 0xd8a1e681u)
    STEP(G, b, c, d, a, w4, 20, 0xe7d3fbc8u)
    STEP(G, a, b, c, d, w9, 5, 0x21e1cde6u)
    STEP(G, d, a, b, c, w14, 9, 0xc33707d6u)
    STEP(G, c, d, a, b, w3, 14, 0xf4d50d87u)
    STEP(G, b, c, d, a, w8, 20, 0x455a14edu)
    STEP(G, a, b, c, d, w13, 5, 0xa9e3e905u)
    STEP(G, d, a, b, c, w2, 9, 0xfcefa3f8u)
    STEP(G, c, d, a, b, w7, 14, 0x676f02d9u)
    STEP(G, b, c, d, a, w12, 20, 0x8d2a4c8au)
    STEP(H, a, b, c, d, w5, 4, 0xfffa3942u)
    STEP(H, d, a, b, c, w8, 11, 0x8771f681u)
    STEP(H, c, d, a, b, w11, 16, 0x6d9d6122u)
    STEP(H, b, c, d, a, w14, 23, 0xfde5380cu)
    STEP(H, a, b, c, d, w1, 4, 0xa4beea44u)
    STEP(H, d, a, b, c, w4, 11, 0x4bdecfa9u)
    STEP(H, c, d, a, b, w7, 16, 0xf6bb4b60u)
    STEP(H, b, c, d, a, w10, 23, 0xbebfbc70u)
    STEP(H, a, b, c, d, w13, 4, 0x289b7ec6u)
    STEP(H, d, a, b, c, w0, 11, 0xeaa127fau)
    STEP(H, c, d, a, b, w3, 16, 0xd4ef3085u)
    STEP(H, b, c, d, a, w6, 23, 0x04881d05u)
    STEP(H, a, b, c, d, w9, 4, 0xd9d4d039u)
    LATE(45, H, d, a, b, c, w12, 11, 0xe6db99e5u)
    LATE(46, H, c, d, a, b, w15, 16, 0x1fa27cf8u)
    LATE(47, H, b, c, d, a, w2, 23, 0xc4ac5665u)
    LATE(48, I, a, b, c, d, w0, 6, 0xf4292244u)
    LATE(49, I, d, a, b, c, w7, 10, 0x432aff97u)
    LATE(50, I, c, d, a, b, w14, 15, 0xab9423a7u)
    LATE(51, I, b, c, d, a, w5, 21, 0xfc93a039u)
    LATE(52, I, a, b, c, d, w12, 6, 0x655b59c3u)
    LATE(53, I, d, a, b, c, w3, 10, 0x8f0ccc92u)
    LATE(54, I, c, d, a, b, w10, 15, 0xffeff47du)
    LATE(55, I, b, c, d, a, w1, 21, 0x85845dd1u)
    LATE(56, I, a, b, c, d, w8, 6, 0x6fa87e4fu)
    LATE(57, I, d, a, b, c, w15, 10, 0xfe2ce6e0u)
    LATE(58, I, c, d, a, b, w6, 15, 0xa3014314u)
    LATE(59, I, b, c, d, a, w13, 21, 0x4e0811a1u)
    LATE(60, I, a, b, c, d, w4, 6, 0xf7537e82u)
    LATE(61, I, d, a, b, c, w11, 10, 0xbd3af235u)
    NEXT_KEYS(KEYS(d))
    Keys keys = KEYS(OUTCOME);
    return keys;
}

// The key of a candidate with this digest, whose block is `w` but for the words that change.
static inline uint aim(const uint *w, __global const uint *digest)
{
    uint a = digest[0] - 0x67452301u, b = digest[1] - 0xefcdab89u;
    uint c = digest[2] - 0x98badcfeu, d = digest[3] - 0x10325476u;
    UNDO(63, b, c, d, a, w[9], 21u, 0xeb86d391u)
    UNDO(62, c, d, a, b, w[2], 15u, 0x2ad7d2bbu)
    UNDO(61, d, a, b, c, w[11], 10u, 0xbd3af235u)
    UNDO(60, a, b, c, d, w[4], 6u, 0xf7537e82u)
    UNDO(59, b, c, d, a, w[13], 21u, 0x4e0811a1u)
    UNDO(58, c, d, a, b, w[6], 15u, 0xa3014314u)
    UNDO(57, d, a, b, c, w[15], 10u, 0xfe2ce6e0u)
    UNDO(56, a, b, c, d, w[8], 6u, 0x6fa87e4fu)
    UNDO(55, b, c, d, a, w[1], 21u, 0x85845dd1u)
    UNDO(54, c, d, a, b, w[10], 15u, 0xffeff47du)
    UNDO(53, d, a, b, c, w[3], 10u, 0x8f0ccc92u)
    UNDO(52, a, b, c, d, w[12], 6u, 0x655b59c3u)
    UNDO(51, b, c, d, a, w[5], 21u, 0xfc93a039u)
    UNDO(50, c, d, a, b, w[14], 15u, 0xab9423a7u)
    UNDO(49, d, a, b, c, w[7], 10u, 0x432aff97u)
    return OUTCOME;
}
