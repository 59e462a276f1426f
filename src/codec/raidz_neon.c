/* Parity with the byte look-ups of 64-bit ARM. */
#include "codec/raidz_impl.h"

#if defined(__aarch64__)

#include <arm_neon.h>

struct nibbles {
    uint8x16_t low, high;
};

static inline struct nibbles nibbles_of(const struct raidz_tables *t, unsigned char factor)
{
    return (struct nibbles){vld1q_u8(t->nibble[factor]), vld1q_u8(t->nibble[factor] + 16)};
}

static inline uint8x16_t nibbles_times(uint8x16_t x, struct nibbles t)
{
    return veorq_u8(vqtbl1q_u8(t.low, vandq_u8(x, vdupq_n_u8(15))),
                    vqtbl1q_u8(t.high, vshrq_n_u8(x, 4)));
}

#define LANES_FN(name) name##_neon
#define TARGET
#define VEC            uint8x16_t
#define VECS           4
#define LOAD(p)        vld1q_u8(p)
#define STORE(p, v)    vst1q_u8(p, v)
#define XOR(a, b)      veorq_u8(a, b)
#define ZERO           vdupq_n_u8(0)
#define TABLE          struct nibbles
#define TABLE_OF(t, f) nibbles_of(t, f)
#define TIMES(x, t)    nibbles_times(x, t)
#include "codec/raidz_lanes_impl.h"

#endif
