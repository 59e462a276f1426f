/* Fletcher-4 with four lanes in pairs of 64-bit vectors; every AArch64 processor has NEON. */
#include "codec/fletcher_impl.h"

#if defined(__aarch64__)

#include <arm_neon.h>

void fletcher4_neon(const unsigned char *p, size_t n, bool swap, uint64_t out[4])
{
    uint64x2_t a0 = vdupq_n_u64(0), b0 = a0, c0 = a0, d0 = a0;
    uint64x2_t a1 = a0, b1 = a0, c1 = a0, d1 = a0;
    uint64_t lanes[4][4];
    const uint64_t *const rows[4] = {lanes[0], lanes[1], lanes[2], lanes[3]};

    for (const unsigned char *end = p + n; p < end; p += 16) {
        uint8x16_t bytes = vld1q_u8(p);
        uint32x4_t v = vreinterpretq_u32_u8(swap ? vrev32q_u8(bytes) : bytes);
        a0 = vaddw_u32(a0, vget_low_u32(v));
        a1 = vaddw_u32(a1, vget_high_u32(v));
        b0 = vaddq_u64(b0, a0);
        b1 = vaddq_u64(b1, a1);
        c0 = vaddq_u64(c0, b0);
        c1 = vaddq_u64(c1, b1);
        d0 = vaddq_u64(d0, c0);
        d1 = vaddq_u64(d1, c1);
    }
    vst1q_u64(&lanes[0][0], a0);
    vst1q_u64(&lanes[0][2], a1);
    vst1q_u64(&lanes[1][0], b0);
    vst1q_u64(&lanes[1][2], b1);
    vst1q_u64(&lanes[2][0], c0);
    vst1q_u64(&lanes[2][2], c1);
    vst1q_u64(&lanes[3][0], d0);
    vst1q_u64(&lanes[3][2], d1);
    fletcher4_join_lanes(rows, 4, out);
}

#endif
